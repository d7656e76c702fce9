"""The judge: a check tree, evidence and the final action in; a score and reasons out.

Pure: no I/O, no clock, no locale, so a stored attempt can be judged again anywhere, for ever. Who is at fault decides
what comes out:

* the agent's result is missing, too large or malformed -> score 0 with a reason, and a `not` over it is 0 too;
* the collector failed or did not answer, or the check itself is broken -> GraderFailed, never a zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from agent.errors import GraderFailed
from agent.task import CheckResult
from sandbox.actions import Action
from sandbox.evidence import Evidence
from verigen.checks.accessibility import check_accessibility
from verigen.checks.browser import check_browser
from verigen.checks.config import check_config
from verigen.checks.final_action import check_final_action
from verigen.checks.glob import check_glob
from verigen.checks.model import AllOf, AnyOf, CheckNode, FinalActionCheck, NotCheck
from verigen.checks.process import check_process
from verigen.checks.setting import check_setting
from verigen.checks.text import check_text
from verigen.checks.tree import ItemLeaf, Leaf
from verigen.checks.verdict import Verdict, unknown
from verigen.checks.window import check_window

__all__ = ["judge"]

ITEM_CHECKS: dict[str, Callable[[Any, Any], Verdict]] = {
    "text": check_text,
    "config": check_config,
    "setting": check_setting,
    "glob": check_glob,
    "accessibility": check_accessibility,
    "window": check_window,
    "process": check_process,
    "browser": check_browser,
}
"""Leaf type -> what judges the data of its evidence item."""


def judge(node: CheckNode, evidence: Evidence, final: Action | None) -> tuple[float, tuple[CheckResult, ...]]:
    """Score an end state.

    Args:
        node: the check tree.
        evidence: answers to the task's evidence requests.
        final: the policy's final action; None when the episode ended without one.

    Returns:
        The score in [0, 1], and one result per leaf in the order of the tree (a `not` is one result).

    Raises:
        GraderFailed: evidence could not be collected, or the tree asks for evidence that nobody collected.
    """
    if evidence.errors:
        causes = "; ".join(f"{name}: {reason}" for name, reason in sorted(evidence.errors.items()))
        raise GraderFailed(f"evidence could not be collected: {causes}")
    results: list[CheckResult] = []
    verdict = _evaluate(node, evidence, final, results)
    return verdict.score, tuple(_unique_names(results))


def _evaluate(node: CheckNode, evidence: Evidence, final: Action | None, results: list[CheckResult]) -> Verdict:
    match node:
        case AllOf() | AnyOf():
            return _combine(node, [_evaluate(child, evidence, final, results) for child in node.of])
        case NotCheck():
            verdict = _negate(_evaluate(node.of, evidence, final, []))
            results.append(CheckResult(name=f"not {_label(node.of)}", score=verdict.score, reason=verdict.reason))
        case _:
            verdict = _leaf(node, evidence, final)
            results.append(CheckResult(name=_label(node), score=verdict.score, reason=verdict.reason))
    return verdict


def _leaf(leaf: Leaf, evidence: Evidence, final: Action | None) -> Verdict:
    if isinstance(leaf, FinalActionCheck):
        return check_final_action(leaf, final)
    return _item(leaf, evidence)


def _item(leaf: ItemLeaf, evidence: Evidence) -> Verdict:
    item = evidence.items.get(leaf.item)
    if item is None:
        raise GraderFailed(f"the check reads {leaf.item!r}, which was not collected; add a request of that name")
    if item.status != "ok":
        return unknown(f"{leaf.item} is {item.status.replace('_', ' ')}" + (f": {item.reason}" if item.reason else ""))
    return ITEM_CHECKS[leaf.type](leaf, item.data)


def _combine(node: AllOf | AnyOf, children: list[Verdict]) -> Verdict:
    known = all(child.known for child in children)
    worst = min(children, key=lambda child: child.score)
    best = max(children, key=lambda child: child.score)
    if isinstance(node, AnyOf):
        return Verdict(score=best.score, reason=best.reason, known=known)
    if node.partial:
        total = sum(child.weight for child in node.of)
        score = sum(child.weight * verdict.score for child, verdict in zip(node.of, children, strict=True)) / total
        return Verdict(score=score, reason=worst.reason, known=known)
    return Verdict(score=1.0 if worst.score == 1.0 else 0.0, reason=worst.reason, known=known)


def _negate(verdict: Verdict) -> Verdict:
    if not verdict.known:
        return unknown(f"nothing can be concluded: {verdict.reason}")
    return Verdict(score=0.0 if verdict.score == 1.0 else 1.0, reason=verdict.reason)


def _label(node: CheckNode) -> str:
    match node:
        case AllOf() | AnyOf() | NotCheck():
            return node.type
        case FinalActionCheck():
            return f"final_action:{node.kind}"
        case _:
            return f"{node.type}:{node.item}"


def _unique_names(results: list[CheckResult]) -> list[CheckResult]:
    """Number the second and later results of one name, so that a name means one check."""
    seen: Counter[str] = Counter()
    named = []
    for result in results:
        seen[result.name] += 1
        suffix = f"#{seen[result.name]}" if seen[result.name] > 1 else ""
        named.append(CheckResult(name=result.name + suffix, score=result.score, reason=result.reason))
    return named
