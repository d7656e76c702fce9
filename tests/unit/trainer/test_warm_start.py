"""The warm start without desktops: which tasks are drawn, and what is kept of what was seen."""

from __future__ import annotations

from pathlib import Path

from agent.policies import NoopPolicy
from agent.policy import ContextTurn, PolicyReply, PolicyRequest
from sandbox.desktop import A11yNode, Rect
from sandbox.frame import Frame
from store.trajectory import TokenTrace
from tests.support.policy import FakePolicy
from tests.support.practice import make_tasks
from tests.support.screen import make_observation
from trainer.config import TaskChoice, WarmStart
from trainer.evaluate import Blindfolded
from trainer.learner import LearnerSettings
from trainer.plans import Plan
from trainer.warm_start import _drop_cut_line, _KeepingRecorder, _learner_settings, _read_widgets, draw_tasks
from verigen.packs import content_key, load_packs, split_of

FRAME = Frame.from_pixels(8, 4, bytes(range(96)))
TRACE = TokenTrace(
    sent_ids=(1,),
    prompt_ids=(1,),
    sampled_ids=(2,),
    logprobs=(0.0,),
    sampled_mask=(True,),
    action_mask=(True,),
    version_span=(0, 0),
)


def request(frame: Frame = FRAME) -> PolicyRequest:
    button = A11yNode(
        role="push button",
        name="Seven",
        states=("showing",),
        bounds=Rect(x=1, y=1, width=4, height=2),
        text=None,
        value=None,
        children=(),
    )
    return PolicyRequest(
        trajectory_id="t",
        instruction="Do it.",
        system_prompt="",
        turns=(ContextTurn(index=0, frame=frame, reply=None, feedback=""),),
        placeholder="",
        dialect="compact",
        observation=make_observation(frame, a11y=(button,)),
        seed=0,
        temperature=0.0,
        max_tokens=8,
        deadline_s=1.0,
    )


def test_drawn_tasks_are_of_the_training_split_and_new() -> None:
    known = make_tasks(3)
    drawn = draw_tasks(load_packs(["galculator"]), 12, seed=1, known=[task.bundle for task in known])
    keys = {content_key(task.bundle) for task in (*known, *drawn)}
    assert len(drawn) == 12
    assert len(keys) == 15, "nothing is drawn twice"
    assert {split_of(task.bundle) for task in drawn} == {"train"}
    assert drawn[0].id == draw_tasks(load_packs(["galculator"]), 1, seed=1, known=[t.bundle for t in known])[0].id
    assert draw_tasks([], 5, seed=1, known=[]) == []


def test_a_run_that_is_about_some_tasks_draws_only_such() -> None:
    choice = TaskChoice(templates=("mousepad/*switch*", "together/*"), apps=("mousepad", "thunar"))
    drawn = draw_tasks(load_packs(), 30, seed=1, known=[], choice=choice)
    templates = {str(task.bundle.task.tags["template"]) for task in drawn}
    assert {"mousepad/switch", "mousepad/two-switches"} <= templates
    assert all("switch" in name or name.startswith("together/") for name in templates)
    assert all(set(task.bundle.task.apps) <= {"mousepad", "thunar"} for task in drawn)
    plans = draw_tasks(load_packs(), 30, seed=1, known=[], choice=choice, purpose="plan")
    assert {task.id for task in plans} != {task.id for task in drawn}, "each purpose draws its own"


async def test_what_lay_on_a_screen_is_written_down_before_the_attempt_ends(tmp_path: Path) -> None:
    file = tmp_path / "widgets.jsonl"
    recorder = _KeepingRecorder(NoopPolicy(), file)
    await recorder.reply(request())
    await recorder.reply(request())
    assert len(file.read_text().splitlines()) == 1, "a screenshot is written down once"
    (widget,) = _read_widgets(file)[FRAME.sha256]
    assert (widget.name, widget.left, widget.bottom) == ("Seven", 1, 3)
    with file.open("a") as cut:
        cut.write('["abc", [{"na')
    _drop_cut_line(file)
    assert _read_widgets(file).keys() == {FRAME.sha256}
    assert _read_widgets(tmp_path / "none.jsonl") == {}


async def test_a_blindfolded_policy_sees_nothing_and_leaves_no_tokens() -> None:
    policy = FakePolicy([lambda asked: PolicyReply(text="done", tokens=TRACE)])
    reply = await Blindfolded(policy).reply(request())
    assert reply.tokens is None
    (turn,) = policy.requests[0].turns
    assert turn.frame is not None
    assert (turn.frame.width, turn.frame.height) == (8, 4)
    assert set(turn.frame.pixels) == {0}


def test_the_learning_rate_of_imitation_falls_until_its_last_update() -> None:
    plan = Plan(instruction="save", turns=())
    settings = WarmStart(reading=30, updates=70)
    assert _learner_settings(settings, [plan]).decay_steps == 100
    assert _learner_settings(settings, []).decay_steps == 70, "without plans nothing is read"
    assert _learner_settings(settings, []).final_lr < 0.5
    own = settings.model_copy(update={"learner": LearnerSettings(lr=1e-3, decay_steps=7)})
    assert _learner_settings(own, [plan]) == own.learner
