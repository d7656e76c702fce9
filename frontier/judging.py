"""Which state each task is in, why, and what the gates are asked.

A task is doubted by the test of `frontier.doubt`, after enough groups. In QUARANTINE it gets no rollouts; its gates
are asked to run, and their answers decide. Gates err too, so an answer is evidence: it moves the odds that the task is
broken by what gates are known to miss and to fail wrongly.

::

    failed -> BROKEN; the gates run again after a wait that doubles
    passed -> FRONTIER if the task is then more likely sound than broken; else the gates stay asked for

So where broken tasks are rare, one pass frees a task that one failure held; where they are common, or its outcomes
speak against it, a pass must be confirmed. A task that comes back must show more groups before it is doubted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.beliefs import SMALLEST, Beliefs
from frontier.columns import Columns
from frontier.config import FrontierConfig
from frontier.doubt import HISTORY, coin_evidence, rise
from frontier.lifecycle import STATES, Event, State, moves

__all__ = ["Judging"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STAGNANT_BAND = (0.2, 0.8)
"""Pooled rates between which a task that does not rise is suspicious."""
STAGNANT_EVIDENCE = -2.0
"""A task whose outcomes speak this clearly for learning is not called stagnant."""
REGRESSION_Z = 3.0
"""Standard deviations by which EASY tasks must disappoint for an alarm."""
REGRESSION_MEMORY = 0.7
"""What earlier groups of EASY tasks still count at each new batch."""

MOST_LOG_ODDS = 6.5
"""Log odds of being broken go no further either way: three passes free any task, however often its gates failed."""

EVENTS_KEPT = 10_000
"""Events that wait for `take_events`; older ones are dropped where nobody asks."""

_TASK = {
    "state": ("|i1", State.FRONTIER, ()),
    "doubt": ("<f8", 0.0, ()),
    "answers": ("<f8", 0.0, ()),
    "clearances": ("<i4", 0, ()),
    "groups": ("<i4", 0, ()),
    "patience": ("<i4", 0, ()),
    "due": ("<i8", 0, ()),
    "wait": ("<i4", 0, ()),
    "ring_passes": ("|u1", 0, (HISTORY,)),
    "ring_graded": ("|u1", 0, (HISTORY,)),
    "ring_drift": ("<f4", 0.0, (HISTORY,)),
}


class Judging:
    """The life cycle of all tasks."""

    def __init__(self, config: FrontierConfig) -> None:
        self._config = config
        self.tasks = Columns(_TASK)
        self._gates_failed, self._gates_run = config.doubt_base
        self._reasons: dict[int, str] = {}
        self._events: list[Event] = []
        self._easy_lack = self._easy_var = 0.0

    @property
    def state_of(self) -> NDArray[np.int8]:
        """[N] codes of `State`."""
        return self.tasks["state"]

    @property
    def doubt(self) -> Floats:
        """[N] probability that the task's check is broken."""
        return self.tasks["doubt"]

    def grow(self, rows: int) -> None:
        """Append new tasks."""
        self.tasks.grow(rows)

    def before(self, beliefs: Beliefs, tasks: Ints, passes: Floats, graded: Floats) -> None:
        """Compare what EASY tasks did with what was believed of them, before the beliefs change."""
        easy = self.state_of[tasks] == State.EASY
        self._easy_lack *= REGRESSION_MEMORY
        self._easy_var *= REGRESSION_MEMORY
        if easy.any():
            mean, strength = beliefs.predict(beliefs.version, tasks[easy])
            n = graded[easy]
            self._easy_lack += float((n * mean - passes[easy]).sum())
            self._easy_var += float((n * mean * (1 - mean) * (1 + (n - 1) / (strength + 1))).sum())

    def after(
        self, beliefs: Beliefs, tasks: Ints, passes: Floats, graded: Floats, version: int, names: Sequence[str]
    ) -> None:
        """Remember the groups, move tasks between states, and doubt some."""
        drift = beliefs.drift()[beliefs.tasks["cell"]]
        for k, s, n in zip(tasks.tolist(), passes.tolist(), graded.tolist(), strict=True):
            self._remember(k, min(int(s), 255), min(int(n), 255), float(drift[k]))
        passed = np.zeros(len(self.tasks), bool)
        passed[tasks[passes > 0]] = True
        mean, strength = beliefs.predict(version)
        for found, code, reason in moves(self.state_of, mean, strength, passed, beliefs.tasks["tried"], self._config):
            for k in found.tolist():
                self._move(k, code, version, reason, names[k])
        if beliefs.jump:
            direction = "rose" if beliefs.jump > 0 else "fell"
            self._note(version, "jump", f"Success {direction} on the whole map at once, by {beliefs.jump:+.2f} logits.")
        if self._easy_lack > REGRESSION_Z * np.sqrt(self._easy_var) > 0:
            self._note(
                version,
                "regression",
                f"EASY tasks were passed {self._easy_lack:.1f} times less than expected of late: the policy has lost "
                "what it could do.",
            )
            self._easy_lack = self._easy_var = 0.0
        if self._config.quarantine:
            self._doubt(np.unique(tasks), version, names)
        del self._events[:-EVENTS_KEPT]

    def gate_requests(self, version: int) -> Iterable[tuple[int, str]]:
        """Tasks whose gates should run, and why."""
        state = self.state_of
        for k in np.flatnonzero(state == State.QUARANTINE).tolist():
            yield k, self._reasons[k]
        for k in np.flatnonzero((state == State.BROKEN) & (self.tasks["due"] <= version)).tolist():
            yield k, "Its gates failed a while ago; they run again in case that was a mistake."

    def gate_answer(self, k: int, *, passed: bool, version: int, name: str) -> None:
        """Let the gates' answer count, and decide where it is enough to."""
        config, state = self._config, int(self.state_of[k])
        if state == State.RETIRED:
            return
        if state < State.QUARANTINE:
            raise ValueError(f"nobody asked for the gates of {name}, which is {STATES[state]}")
        miss, alarm = config.gate_miss, config.gate_false_alarm
        said = np.log(miss / (1 - alarm)) if passed else np.log((1 - miss) / alarm)
        before = np.clip(self.tasks["doubt"][k], SMALLEST, 1 - SMALLEST)
        odds = np.clip(np.log(before) - np.log1p(-before) + said, -MOST_LOG_ODDS, MOST_LOG_ODDS)
        doubt = self.tasks["doubt"][k] = 1 / (1 + np.exp(-odds))
        self.tasks["answers"][k] = np.clip(self.tasks["answers"][k] + said, -MOST_LOG_ODDS, MOST_LOG_ODDS)
        if not passed:
            wait = config.recheck_after if state == State.QUARANTINE else 2 * int(self.tasks["wait"][k])
            self.tasks["wait"][k] = wait
            self.tasks["due"][k] = version + wait
            if state == State.QUARANTINE:
                self._leave_quarantine(k, State.BROKEN, version, "Its gates ran again and failed.", name)
        elif doubt < config.release_below:
            # Twice as many new groups each time: a sound task that stands still is not doubted for ever.
            self.tasks["clearances"][k] += 1
            patience = 2 ** (1 + min(int(self.tasks["clearances"][k]), 20))
            self.tasks["patience"][k] = self.tasks["groups"][k] + patience
            if state == State.BROKEN:
                # What its check said while it was held for broken is no longer held against it.
                self.tasks["ring_passes"][k] = self.tasks["ring_graded"][k] = 0
            self._leave_quarantine(k, State.FRONTIER, version, "Its gates ran again and passed.", name)

    def retire(self, k: int, version: int, name: str) -> None:
        """Take a task out of the life cycle."""
        self._reasons.pop(k, None)
        self._move(k, State.RETIRED, version, "It was taken out of the pool.", name)

    def come_back(self, k: int, version: int, name: str) -> None:
        """Begin again with a retired task."""
        self._move(k, State.FRONTIER, version, "It was put into the pool again.", name)

    def visited(self, k: int, version: int) -> None:
        """A group of the task was planned: where visits are rare, the next one waits longer."""
        limits = {State.MONITOR: self._config.monitor_backoff, State.EASY: self._config.easy_backoff}
        if (limit := limits.get(int(self.state_of[k]))) is not None:
            wait = min(max(2 * int(self.tasks["wait"][k]), limit[0]), limit[1])
            self.tasks["wait"][k] = wait
            self.tasks["due"][k] = version + wait

    def due(self, state: int, version: int, idle: NDArray[np.bool_]) -> list[int]:
        """Idle tasks of a state whose visit is due, the longest overdue first."""
        found = np.flatnonzero((self.state_of == state) & (self.tasks["due"] <= version) & idle)
        return [int(k) for k in found[np.argsort(self.tasks["due"][found], kind="stable")]]

    def waits(self, version: int) -> Ints:
        """[N] versions until a visit is due."""
        return np.asarray(self.tasks["due"] - version)

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def _remember(self, k: int, passes: int, graded: int, drift: float) -> None:
        """Shift the task's history by one group; the newest is the last."""
        for name, value in (("ring_passes", passes), ("ring_graded", graded), ("ring_drift", drift)):
            row = self.tasks[name][k]
            row[:-1] = row[1:]
            row[-1] = value
        self.tasks["groups"][k] += 1

    def _doubt(self, tasks: Ints, version: int, names: Sequence[str]) -> None:
        """Test the tasks that were just tried, and quarantine those that look broken."""
        config = self._config
        tasks = tasks[(self.state_of[tasks] == State.FRONTIER) & (self.tasks["groups"][tasks] >= config.doubt_groups)]
        if not tasks.size:
            return
        ring = [self.tasks[name][tasks] for name in ("ring_passes", "ring_graded", "ring_drift")]
        base = self._gates_failed / self._gates_run
        evidence = coin_evidence(*ring)
        odds = np.log(base) - np.log1p(-base) + evidence + self.tasks["answers"][tasks]
        doubt = 1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS)))
        self.tasks["doubt"][tasks] = doubt
        rate, risen = rise(ring[0], ring[1])
        groups = self.tasks["groups"][tasks]
        enough = (groups >= config.stagnant_groups) | (ring[1].sum(axis=1) >= config.stagnant_rollouts)
        between = (rate > STAGNANT_BAND[0]) & (rate < STAGNANT_BAND[1])
        stagnant = enough & (risen < config.stagnant_rise) & (evidence > STAGNANT_EVIDENCE) & between
        audited = (groups >= config.audit_groups) & (self.tasks["clearances"][tasks] == 0) & between
        audited &= evidence > STAGNANT_EVIDENCE
        ready = np.flatnonzero(groups >= self.tasks["patience"][tasks])
        for i in ready.tolist():
            k, p, change, mean = int(tasks[i]), doubt[i], risen[i], rate[i]
            if p > config.doubt_threshold:
                reason = (
                    f"Its outcomes fit a constant rate near {mean:.2f} better than learning ({p:.0%} likely broken)."
                )
            elif stagnant[i]:
                reason = f"Over its last groups it was passed at {mean:.2f} and changed by {change:+.2f}: no progress."
            elif audited[i]:
                reason = f"It has had {groups[i]} groups and is passed at {mean:.2f}: its check is worth a look."
            else:
                continue
            self._reasons[k] = reason
            self._move(k, State.QUARANTINE, version, reason, names[k])

    def _leave_quarantine(self, k: int, code: int, version: int, reason: str, name: str) -> None:
        """Move a held task; the first answer that decides on a doubt counts towards the base rate."""
        if self._reasons.pop(k, None) is not None:
            self._gates_run += 1
            self._gates_failed += code == State.BROKEN
        self._move(k, code, version, reason, name)

    def _move(self, k: int, code: int, version: int, reason: str, name: str) -> None:
        before = STATES[self.state_of[k]]
        self.state_of[k] = code
        if code in (State.MONITOR, State.EASY):
            limit = self._config.monitor_backoff if code == State.MONITOR else self._config.easy_backoff
            self.tasks["wait"][k] = limit[0]
            self.tasks["due"][k] = version + limit[0]
        self._events.append(
            Event(version=version, kind="transition", task=name, before=before, after=STATES[code], reason=reason)
        )

    def _note(self, version: int, kind: str, reason: str) -> None:
        self._events.append(Event(version=version, kind=kind, task="", before="", after="", reason=reason))

    def state(self) -> dict[str, Any]:
        """Everything decided, as JSON data."""
        return {
            "tasks": self.tasks.state(),
            "gates": [self._gates_failed, self._gates_run],
            "reasons": [[k, reason] for k, reason in sorted(self._reasons.items())],
            "events": [asdict(event) for event in self._events],
            "easy": [self._easy_lack, self._easy_var],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.tasks.restore(state["tasks"])
        self._gates_failed, self._gates_run = state["gates"]
        self._reasons = {k: reason for k, reason in state["reasons"]}
        self._events = [Event(**event) for event in state["events"]]
        self._easy_lack, self._easy_var = state["easy"]
