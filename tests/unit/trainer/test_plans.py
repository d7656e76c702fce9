"""Plans: a solution as text, and which of its tokens are trained."""

from __future__ import annotations

import random

import pytest

from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary
from agent.policies.script import ClickOn, Do, SayDone, SayInfeasible, WaitActive
from sandbox.actions import Press, TypeText
from tests.support.practice import make_tasks
from trainer.plans import Plan, PlannedTurn, plan_of, plan_sequence
from verigen.bundle import Bundle
from verigen.packs import load_packs

PLAN = Plan(
    instruction="Turn on Toolbar",
    turns=(
        PlannedTurn(target="View", text="click 0 0"),
        PlannedTurn(target="", text="press ctrl+s"),
        PlannedTurn(target="", text="done"),
    ),
)


def form_of(*plans: Plan) -> CompactFormat:
    texts = [text for plan in plans for text in plan.texts()]
    return CompactFormat(Vocabulary.from_texts(texts, width=320, height=288), ImagePlan())


def bundle_with(*steps: ClickOn | Do | SayDone | SayInfeasible | WaitActive) -> Bundle:
    bundle = make_tasks(1)[0].bundle
    return bundle.model_copy(update={"oracle": steps})


def test_a_plan_has_a_turn_for_each_action_and_none_for_waiting() -> None:
    plan = plan_of(
        bundle_with(
            ClickOn(app="mousepad", role="menu", name="View", clicks=2),
            WaitActive(app="mousepad"),
            Do(action=TypeText(text="oat milk")),
            Do(action=Press(keys=("ctrl", "s"))),
            SayDone(),
        )
    )
    assert [(turn.target, turn.text) for turn in plan.turns] == [
        ("View", "double 0 0"),
        ("", "type oat milk"),
        ("", "press ctrl+s"),
        ("", "done"),
    ]
    (refusal,) = plan_of(bundle_with(SayInfeasible())).turns
    assert refusal.text == "infeasible"


def test_what_follows_from_the_instruction_is_trained_and_where_things_are_is_not() -> None:
    form = form_of(PLAN)
    sequence = plan_sequence(PLAN, form, random.Random(0), weight=0.5)
    kinds = [form.vocabulary.kind(sequence.ids[index]) for index in sequence.trained]
    assert kinds == ["verb", "word", "verb", "chord", "verb"]
    assert not sequence.images
    assert form.image_id not in sequence.ids
    assert sequence.weight == 0.5
    replies = [form.decode_reply(sequence.ids[reply.start : reply.stop]) for reply in sequence.replies]
    assert [reply.split()[:2] for reply in replies] == [["#", "View"], ["press", "ctrl+s"], ["done"]]
    other = plan_sequence(PLAN, form, random.Random(1))
    assert sequence.ids != other.ids, "coordinates are random"
    assert len(sequence.ids) == len(other.ids)


@pytest.mark.parametrize("pack", load_packs(), ids=lambda pack: str(pack.name))
def test_every_template_of_the_packs_has_a_plan_that_can_be_written(pack: object) -> None:
    from verigen.packs import Draw, SkillPack

    assert isinstance(pack, SkillPack)
    plans = [plan_of(template.make(Draw(f"{template.name}/{n}"))) for template in pack.templates for n in range(3)]
    form = form_of(*plans)
    for plan in plans:
        sequence = plan_sequence(plan, form, random.Random(0))
        assert len(sequence.replies) == len(plan.turns) >= 2
        assert sequence.trained
