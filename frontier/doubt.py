"""Is a task's check broken? A test on the recent groups of a task, which can raise a doubt but never decides.

Two explanations of a task's last groups compete. Honest: success has one unknown difficulty and moves with the drift
of its cell (and a little by its own practice). Coin-flip: success is one unknown constant, whatever the policy does.
Both are averaged over a grid of their unknown, so that neither is favoured for its freedom. The odds start from the
base rate that gate runs have shown so far: a pool whose doubted tasks keep being cleared is doubted less.

A policy that stands still gives the two nothing to differ in. There, not rising over enough groups is reason to ask:
rollouts of such a task teach nothing either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HISTORY", "coin_evidence", "rise"]

Floats = NDArray[np.float64]

HISTORY = 16
"""Groups of a task that are remembered."""
PRACTICE = 0.03
"""Logits by which an honest task is expected to rise per group of its own."""

_HONEST = np.linspace(-5.0, 5.0, 21)
_HONEST_LOG = -0.5 * (_HONEST / 2.5) ** 2
_HONEST_LOG -= np.log(np.exp(_HONEST_LOG).sum())
_COIN = np.linspace(0.2, 0.8, 9)


def coin_evidence(passes: NDArray[Any], graded: NDArray[Any], drift: NDArray[Any]) -> Floats:
    """[T] log of how much better a constant explains the groups than an honest task would.

    Args:
        passes: [T, H] per remembered group, oldest first; unused places have 0 graded.
        graded: [T, H]
        drift: [T, H] logits by which the cell had drifted when the group was learned.
    """
    s, f = passes.astype(np.float64), graded.astype(np.float64) - passes
    used = graded > 0
    order = np.cumsum(used, axis=1)
    last = np.max(np.where(used, order, 0), axis=1, keepdims=True)
    latest = np.take_along_axis(drift.astype(np.float64), np.maximum(_last_used(used), 0)[:, None], axis=1)
    moved = drift - latest + PRACTICE * (order - last)
    raw = _HONEST[None, None, :] + moved[:, :, None]
    # log sigmoid(raw), stable on both sides; log sigmoid(-raw) is raw less.
    log_pass = -np.logaddexp(0.0, -raw)
    log_fail = log_pass - raw
    honest = ((s[:, :, None] * log_pass + f[:, :, None] * log_fail) * used[:, :, None]).sum(axis=1) + _HONEST_LOG
    total_s, total_f = (s * used).sum(axis=1), (f * used).sum(axis=1)
    coin = total_s[:, None] * np.log(_COIN) + total_f[:, None] * np.log1p(-_COIN) - np.log(_COIN.size)
    return np.asarray(_log_sum(coin) - _log_sum(honest))


def rise(passes: NDArray[Any], graded: NDArray[Any]) -> tuple[Floats, Floats]:
    """[T] pooled rate of the remembered groups, and the newer half's rate minus the older half's."""
    s, n = passes.astype(np.float64), graded.astype(np.float64)
    order = np.cumsum(n > 0, axis=1)
    newer = order * 2 > order[:, -1:]
    total = np.maximum(n.sum(axis=1), 1)
    late_n, early_n = (n * newer).sum(axis=1), (n * ~newer).sum(axis=1)
    late = (s * newer).sum(axis=1) / np.maximum(late_n, 1)
    early = (s * ~newer).sum(axis=1) / np.maximum(early_n, 1)
    return s.sum(axis=1) / total, late - early


def _last_used(used: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[T] place of the newest group; -1 without any."""
    width = used.shape[1]
    return np.where(used.any(axis=1), width - 1 - np.argmax(used[:, ::-1], axis=1), -1)


def _log_sum(x: Floats) -> Floats:
    top = x.max(axis=1, keepdims=True)
    return np.asarray((top + np.log(np.exp(x - top).sum(axis=1, keepdims=True)))[:, 0])
