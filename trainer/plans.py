"""Plans: what a task's solution would do, as text alone, with no desktop and no picture.

::

    <|task|> INSTRUCTION  <|dropped|> <|act|> click View x? y? <|end|>  <|dropped|> <|act|> click Toolbar ...
                                              ^^^^^^^^^^ trained   ^^^^^ trained, the coordinates are not

What to press, what to type and in which order follows from the instruction, and no screen is needed to learn it. A
plan is a few dozen tokens where a demonstration is hundreds, and any number can be drawn from the skill packs; so
desktops and pictures are spent on what only they teach, where things are and what state they are in.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from agent.engines.tokens import CompactFormat
from agent.policies.script import ClickOn, ClickWindow, Do, SayAnswer, SayDone, SayInfeasible, ScriptStep
from sandbox.actions import Action, Answer, Click, Done, Infeasible, Point
from sandbox.dialects import View, get_dialect
from trainer.batches import TrainingSequence
from trainer.demonstrations import MAX_NAME
from trainer.widgets import fitting_name
from verigen.bundle import Bundle

__all__ = ["Plan", "PlannedTurn", "plan_of", "plan_sequence"]

_SOMEWHERE = Point(x=0, y=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTurn:
    """One turn of a plan."""

    target: str
    """What it points at; empty where that has no name."""
    text: str
    """The action in the compact dialect; where it points to is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A solution as text."""

    instruction: str
    turns: tuple[PlannedTurn, ...]

    def texts(self) -> Iterable[str]:
        """Everything that it says, for a vocabulary."""
        yield self.instruction
        for turn in self.turns:
            yield turn.target
            yield turn.text


def plan_of(bundle: Bundle) -> Plan:
    """The plan of a bundle's own solution. Steps that only wait have no turn."""
    spec = bundle.task.desktop
    screen = spec.width, spec.height
    dialect, view = get_dialect("compact"), View(screen=screen, shown=screen)
    turns = []
    for step in bundle.oracle:
        action = _action(step)
        if action is not None:
            target = step.name if isinstance(step, ClickOn) else ""
            turns.append(PlannedTurn(target=target, text=dialect.render(action, view)))
    return Plan(instruction=bundle.task.instruction, turns=tuple(turns))


def plan_sequence(plan: Plan, form: CompactFormat, rng: random.Random, *, weight: float = 1.0) -> TrainingSequence:
    """A plan as a training sequence. Coordinates are random and not trained.

    Args:
        weight: of its tokens beside those of demonstrations.

    Raises:
        ValueError: a turn has no tokens.
    """
    assert form.grammar is not None, "plans are for policies that are held to a grammar"
    vocabulary = form.vocabulary
    xs, ys = vocabulary.of_kind("x"), vocabulary.of_kind("y")
    ids = form.begin("", plan.instruction)
    trained: list[int] = []
    replies = []
    for number, turn in enumerate(plan.turns):
        ids += form.observation(shown=False, feedback="", placeholder="", after="end" if number else "begin")
        name = fitting_name(form, turn.target, MAX_NAME)
        reply = form.encode_reply(f"# {name}\n{turn.text}" if name else turn.text)
        states = form.grammar.states(reply)
        start = len(ids)
        replies.append(range(start, start + len(reply)))
        for index, token in enumerate(reply):
            kind = vocabulary.kind(token)
            if kind in ("x", "y"):
                ids.append(rng.choice(xs if kind == "x" else ys))
                continue
            ids.append(token)
            if form.grammar.forced(states[index]) is None:
                trained.append(start + index)
    return TrainingSequence(
        trajectory_id=f"plan:{plan.instruction}",
        turns=range(len(plan.turns)),
        ids=tuple(ids),
        images=(),
        trained=tuple(trained),
        replies=tuple(replies),
        logprobs=(0.0,) * len(trained),
        advantage=0.0,
        oldest_version=0,
        weight=weight,
    )


def _action(step: ScriptStep) -> Action | None:
    match step:
        case Do():
            return step.action
        case ClickOn() | ClickWindow():
            return Click(point=_SOMEWHERE, button=step.button, clicks=step.clicks)
        case SayDone():
            return Done()
        case SayInfeasible():
            return Infeasible(reason=step.reason)
        case SayAnswer():
            return Answer(text=step.text)
        case _:
            return None
