"""A policy that follows a script: the oracle of a task, its alternatives and its near misses.

::

    each turn:  step's target found? --yes--> do it, go to the next step
                        `--no--> wait and look again; ScriptFailed once the step's looks are used up

It writes text in the harness's dialect like any other policy, so an oracle's episode exercises the same path as a
model's, and its trajectories can be imitated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from agent.errors import ReplyTimeout, ScriptFailed
from agent.policies.lookup import (
    describe_target,
    describe_tree,
    describe_windows,
    find_node,
    find_window,
    window_point,
)
from agent.policies.script import (
    ClickOn,
    ClickWindow,
    Do,
    SayAnswer,
    SayDone,
    SayInfeasible,
    ScriptStep,
    WaitActive,
    WaitWindow,
    script_json,
)
from agent.policies.speaking import say, screen_size
from agent.policy import PolicyReply, PolicyRequest
from sandbox.actions import Action, Answer, Click, Done, Infeasible, Point, Wait, is_terminal
from sandbox.desktop import Want

__all__ = ["ScriptedPolicy"]


@dataclass(slots=True)
class _Place:
    """Where an episode is in the script."""

    step: int = 0
    looks: int = 0


class ScriptedPolicy:
    """Follows a script, one action a turn. One object serves any number of episodes at once.

    Args:
        steps: the last one must end the episode.
        name: the actor's name on trajectories.
        delays_s: shortest and longest random pause before each reply, seconds; drawn from the turn's sampling seed.

    Raises:
        ValueError: the script is empty, ends before its last step, or does not end at all.
    """

    def __init__(
        self, steps: Sequence[ScriptStep], *, name: str = "oracle", delays_s: tuple[float, float] | None = None
    ) -> None:
        endings = [index for index, step in enumerate(steps) if _ends(step)]
        if endings != [len(steps) - 1]:
            raise ValueError(
                f"a script of {len(steps)} steps must end with its last step (done, infeasible or answer) and not "
                f"before; it ends at steps {[index + 1 for index in endings]}"
            )
        self.name = name
        self.hash = hashlib.sha256(json.dumps(script_json(steps), sort_keys=True).encode()).hexdigest()
        needs: dict[Want, bool] = {
            "a11y": any(isinstance(step, ClickOn) for step in steps),
            "windows": any(isinstance(step, ClickWindow | WaitWindow | WaitActive) for step in steps),
        }
        self.wants: tuple[Want, ...] = tuple(want for want, needed in needs.items() if needed)
        self._steps = tuple(steps)
        self._delays_s = delays_s
        self._places: dict[str, _Place] = {}

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Write the next action.

        Raises:
            ReplyTimeout: the random pause would last longer than the time left.
            ScriptFailed: a target did not appear; the message names it and what was there instead.
        """
        if self._delays_s is not None:
            delay_s = random.Random(request.seed).uniform(*self._delays_s)
            await asyncio.sleep(min(delay_s, request.deadline_s))
            if delay_s >= request.deadline_s:
                raise ReplyTimeout(f"the script pauses for {delay_s:.1f} s, and {request.deadline_s:.1f} s were left")
        if request.turns[-1].index == 0:
            self._places[request.trajectory_id] = _Place()
        place = self._places[request.trajectory_id]
        while True:
            step = self._steps[place.step]
            found, action = _resolve(step, request)
            if found:
                place.step, place.looks = place.step + 1, 0
                if action is None:
                    continue
                if is_terminal(action):
                    del self._places[request.trajectory_id]
                return say(request, action)
            assert isinstance(step, ClickOn | ClickWindow | WaitWindow | WaitActive)
            place.looks += 1
            if place.looks >= step.looks:
                number = f"step {place.step + 1} of the script, after {place.looks} looks"
                del self._places[request.trajectory_id]
                raise ScriptFailed(f"{describe_target(step)} ({number})", seen=_seen(step, request))
            return say(request, Wait(seconds=step.pause_s))

    async def close(self) -> None:
        """Nothing to release."""


def _ends(step: ScriptStep) -> bool:
    return isinstance(step, SayDone | SayInfeasible | SayAnswer) or (isinstance(step, Do) and is_terminal(step.action))


def _resolve(step: ScriptStep, request: PolicyRequest) -> tuple[bool, Action | None]:
    """Whether the step's target is there, and what to do now; None goes on with the next step."""
    match step:
        case Do():
            return True, step.action
        case SayDone():
            return True, Done()
        case SayInfeasible():
            return True, Infeasible(reason=step.reason)
        case SayAnswer():
            return True, Answer(text=step.text)
        case WaitWindow() | WaitActive():
            return find_window(step, request.observation.windows or ()) is not None, None
        case ClickWindow():
            window = find_window(step, request.observation.windows or ())
            if window is None:
                return False, None
            point = window_point(step, window, screen_size(request))
            return True, Click(point=point, button=step.button, clicks=step.clicks)
        case ClickOn():
            node = find_node(step, request.observation.a11y or ())
            if node is None or node.bounds is None:
                return False, None
            x, y = node.bounds.center
            return True, Click(point=Point(x=x, y=y), button=step.button, clicks=step.clicks)


def _seen(step: ClickOn | ClickWindow | WaitWindow | WaitActive, request: PolicyRequest) -> str:
    if isinstance(step, ClickOn):
        return describe_tree(step, request.observation.a11y or ())
    return describe_windows(request.observation.windows or ())
