"""Building bundles from parts, so that one description of a skill serves alone and in compositions.

A *scene* is an application in its start state and what must stay untouched in it; a *part* is one thing to do in a
scene: words, solutions, what must be true afterwards, near misses. A bundle is parts in scenes::

    setup  = look of the screen, each scene opened in turn, places of windows, what parts need (a dialog, half a sum)
    oracle = parts in order, with a click on the task bar wherever the next part is in another window
    check  = facts of all scenes, replaced by those of the parts that change them, and `done`
    misses = each part left out, each part's own near misses, the whole work done and then given up
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

from agent.policies.script import Do, SayAnswer, SayDone, SayInfeasible, ScriptStep, WaitActive
from sandbox.actions import Click, Point
from sandbox.desktop import DesktopSpec
from sandbox.evidence import EvidenceRequest
from verigen.bundle import Bundle, Negative, Provenance, Script, Solution
from verigen.canonical import content_hash
from verigen.checks.model import AllOf, CheckNode, FinalActionCheck
from verigen.packs.draw import Draw
from verigen.task import (
    AssertStep,
    ExecStep,
    LaunchStep,
    Limits,
    PlaceWindowStep,
    SetupStep,
    Task,
    TextFileStep,
    WaitWindowStep,
)

__all__ = ["MAX_NEGATIVES", "SCREEN", "Fact", "Miss", "Part", "Scene", "compose"]

SCREEN = DesktopSpec(width=320, height=288, font_scale=0.75)
"""Small enough for a tiny policy (90 patches of 32 pixels), large enough for every window and menu of the packs."""
WORK_HEIGHT = 263
"""Pixels above the task bar."""
FRAME = (6, 29)
"""What a window's frame adds to its size."""
TASK_BUTTONS = (107, 191, 275)
"""Middles of the task bar's buttons, in the order of launching."""
TASK_BAR_Y = 276
MAX_NEGATIVES = 5
"""A desktop each; four are what admission demands."""
SPARE_STEPS = 6

LOOK = TextFileStep(
    path=".config/gtk-3.0/gtk.css",
    text="""\
menuitem, menubar > menuitem { padding: 1px 5px; min-height: 15px; }
menuitem check, menuitem radio { min-height: 13px; min-width: 13px; margin: 0 3px 0 0; }
menu separator { margin: 1px 0; }
button { padding: 0 4px; min-height: 17px; min-width: 14px; }
entry { min-height: 20px; padding: 0 4px; }
tooltip, tooltip * { font-size: 1px; padding: 0; margin: 0; min-height: 0; border: none; opacity: 0; }
tooltip box { margin: -7px -8px; }
""",
)
"""Menus and dialogs small enough for the screen, with nothing that is clicked lower than 17 pixels.

Tool tips are almost nothing: they open where the pointer rests, and take the click on the widget below them.
"""
PARK = ExecStep(argv=("xdotool", "mousemove", "312", str(TASK_BAR_Y)))
"""The pointer starts on the empty end of the task bar."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One evidence item and what it must be in the end."""

    evidence: EvidenceRequest
    check: CheckNode

    @property
    def item(self) -> str:
        """The evidence's name; of two facts about one item the later holds."""
        return self.evidence.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """An application in its start state."""

    app: str
    """Window class, lower case."""
    argv: tuple[str, ...]
    title: str = ""
    """Part of the window's title."""
    size: tuple[int, int] | None = None
    """Of the window's content, pixels; None keeps the application's own."""
    takes: tuple[int, int] | None = None
    """Space that the content needs with its menus open, which decides where the window may stand; None is its size."""
    before: tuple[SetupStep, ...] = ()
    """Files and settings."""
    keeps: tuple[Fact, ...] = ()
    """What must be so in the end, unless a part changes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Miss:
    """A near miss, in place of a part's solution, or a shortcut before it."""

    name: str
    why: str
    steps: tuple[ScriptStep, ...] = ()
    before: tuple[SetupStep, ...] = ()
    """A shortcut taken behind the screen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One thing to do in one scene."""

    skill: str
    app: str
    asks: str
    """What to do, as a sentence without its capital and full stop: `save the note`."""
    steps: tuple[ScriptStep, ...] = ()
    """The solution, without an ending."""
    other: tuple[ScriptStep, ...] = ()
    """Another right way."""
    facts: tuple[Fact, ...] = ()
    """What it makes true; empty where the right thing is to refuse."""
    misses: tuple[Miss, ...] = ()
    """The first one must still be wrong when other parts follow; only it is tried in compositions."""
    after: tuple[SetupStep, ...] = ()
    """Setup once the windows are placed; keys go to the window that was opened last."""
    asserts: tuple[AssertStep, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the task is about where the start state does not tell, e.g. the numbers of a sum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """Turns solutions of the parts into whole scripts."""

    scenes: Sequence[Scene]
    parts: Sequence[Part]

    def script(self, solutions: Sequence[tuple[ScriptStep, ...]], end: ScriptStep) -> Script:
        """The solutions one after the other, each in its own window, then the ending."""
        titles = {scene.app: scene.title for scene in self.scenes}
        order = list(titles)
        shown, steps = order[-1], list[ScriptStep]()
        for part, solution in zip(self.parts, solutions, strict=True):
            if solution and part.app != shown:
                shown = part.app
                point = Point(x=TASK_BUTTONS[order.index(shown)], y=TASK_BAR_Y)
                steps += Do(action=Click(point=point)), WaitActive(app=shown, title_contains=titles[shown])
            steps += solution
        return (*steps, end)

    def label(self, number: int) -> str:
        """Tells which part a near miss is about."""
        return f"part {number + 1}: " if len(self.parts) > 1 else ""

    def instead(self, number: int, steps: tuple[ScriptStep, ...], end: ScriptStep) -> Script:
        """All parts as they should be, but for one."""
        solutions = [steps if index == number else part.steps for index, part in enumerate(self.parts)]
        return self.script(solutions, end)


def compose(
    template: str,
    scenes: Sequence[Scene],
    parts: Sequence[Part],
    draw: Draw,
    *,
    feasible: bool = True,
    channels: Literal["gui", "terminal", "both"] = "gui",
    says: str | None = None,
    misses: Sequence[Miss] = (),
) -> Bundle:
    """Build a bundle, without examples.

    Args:
        template: its name, `PACK/TEMPLATE`.
        scenes: in the order of launching; the last one's window is on top.
        parts: in the order of doing; where two have a fact about one item, the later one's holds.
        says: the instruction; None joins what the parts ask.
        misses: near misses of the whole, e.g. the right steps in the wrong order.
    """
    facts = {fact.item: fact for scene in scenes for fact in scene.keeps}
    facts |= {fact.item: fact for part in parts for fact in part.facts}
    opened = [_open(scene, draw) for scene in scenes]
    after = [PARK, *(step for part in parts for step in part.after)]
    setup = (LOOK, *(step for scene in scenes for step in scene.before), *(step for steps in opened for step in steps))
    start = [step.model_dump(mode="json") for step in (*setup, *after) if not isinstance(step, PlaceWindowStep)]
    about = {name: value for part in parts for name, value in part.about.items()}
    seed_state = content_hash({"start": start, "about": about})
    instruction = says or _sentence([part.asks for part in parts])
    work, end = _Work(scenes=scenes, parts=parts), SayDone() if feasible else SayInfeasible()
    oracle = work.script([part.steps for part in parts], end)
    other = work.script([part.other for part in parts], end)
    return Bundle(
        task=Task(
            name=f"{template.replace('/', '-')}-{content_hash([instruction, seed_state])[:8]}",
            instruction=instruction,
            apps=tuple(scene.app for scene in scenes),
            skills=tuple(part.skill for part in parts),
            channels=channels,
            feasible=feasible,
            desktop=SCREEN,
            limits=Limits(max_steps=max(len(oracle), len(other)) + SPARE_STEPS, time_limit_s=120.0),
            setup=(*setup, *after),
            setup_asserts=tuple(step for part in parts for step in part.asserts),
            evidence=tuple(fact.evidence for fact in facts.values()),
            check=AllOf(
                of=(
                    *(fact.check for fact in facts.values()),
                    FinalActionCheck(kind="done" if feasible else "infeasible"),
                )
            ),
            tags={"template": template, "milestones": _milestones(parts)},
        ),
        oracle=oracle,
        alternatives=(Solution(name="another way", script=other),),
        negatives=_negatives(work, misses, feasible=feasible),
        provenance=Provenance(generator=f"pack:{template.partition('/')[0]}"),
        seed_state=seed_state,
    )


def _open(scene: Scene, draw: Draw) -> tuple[SetupStep, ...]:
    needed = scene.takes or scene.size
    assert needed is not None, "a scene says what space it needs"
    place = PlaceWindowStep(
        app=scene.app,
        x=draw.number(0, SCREEN.width - needed[0] - FRAME[0]),
        y=draw.number(0, WORK_HEIGHT - needed[1] - FRAME[1]),
        width=scene.size and scene.size[0],
        height=scene.size and scene.size[1],
    )
    return LaunchStep(argv=scene.argv), WaitWindowStep(app=scene.app, title_contains=scene.title), place


def _negatives(work: _Work, misses: Sequence[Miss], *, feasible: bool) -> tuple[Negative, ...]:
    """Near misses of each kind in turn, so that no kind is crowded out."""
    end: ScriptStep = SayDone() if feasible else SayInfeasible()
    kinds = [
        [
            Negative(
                name=f"{work.label(number)}{miss.name}",
                why=miss.why,
                before=miss.before,
                script=work.instead(number, miss.steps, end),
            )
            for miss in (part.misses if len(work.parts) == 1 else part.misses[:1])
        ]
        for number, part in enumerate(work.parts)
    ]
    kinds.append([Negative(name=one.name, why=one.why, before=one.before, script=(*one.steps, end)) for one in misses])
    if len(work.parts) > 1:
        kinds.append(
            [
                Negative(
                    name=f"{work.label(number)}left out", why="a part is missing", script=work.instead(number, (), end)
                )
                for number in range(len(work.parts))
            ]
        )
    oracle = [part.steps for part in work.parts]
    if feasible:
        gives_up = work.script(oracle, SayInfeasible())
        kinds.append([Negative(name="gives up", why="all is done, but called impossible", script=gives_up)])
    else:
        nearest = [miss for part in work.parts for miss in part.misses if miss.steps]
        kinds.append(
            [
                Negative(name="says done", why="nothing could be done", script=work.script(oracle, SayDone())),
                Negative(name="answers", why="nothing was asked", script=work.script(oracle, SayAnswer(text="done"))),
                *(
                    Negative(name=f"{miss.name}, then done", why=miss.why, script=(*miss.steps, SayDone()))
                    for miss in nearest
                ),
            ]
        )
    mixed = [one for rank in zip_longest(*kinds) for one in rank if one is not None]
    return tuple(mixed[:MAX_NEGATIVES])


def _milestones(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What each part makes true, as checks on the task's evidence; for partial credit."""
    return [
        {"skill": part.skill, "check": AllOf(of=tuple(fact.check for fact in part.facts)).model_dump(mode="json")}
        for part in parts
        if part.facts
    ]


def _sentence(asks: Sequence[str]) -> str:
    if len(asks) == 1:
        return f"{_capital(asks[0])}."
    *first, last = asks
    middle = "".join(f" Then {one}." for one in first[1:])
    return f"First {first[0]}.{middle} {'Then' if len(asks) == 2 else 'At last'} {last}."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
