"""Scripts: as data, and followed on what a desktop shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from agent.errors import PolicyError, ReplyTimeout, ScriptFailed
from agent.policies import (
    ClickOn,
    ClickWindow,
    Do,
    SayAnswer,
    SayDone,
    SayInfeasible,
    ScriptedPolicy,
    ScriptStep,
    WaitActive,
    WaitWindow,
    parse_script,
    script_json,
)
from agent.policy import ContextTurn
from sandbox.actions import Action, Answer, Click, Done, Infeasible, Point, Press, Wait
from sandbox.desktop import A11yNode, Observation, Window
from sandbox.dialects import View, get_dialect
from tests.support.requests import make_request
from tests.support.screen import make_frame, make_node, make_observation, make_window

EDITOR = make_node(
    "application",
    "Editor",
    make_node(
        "frame",
        "notes.txt",
        make_node("push button", "Save  ", at=(10, 20, 30, 10)),
        make_node("push button", "Save", at=(60, 20, 30, 10)),
        make_node("push button", "Hidden", states=()),
    ),
    make_node("dialog", "Save as", make_node("push button", "Save", at=(100, 80, 20, 10))),
    at=None,
)


def see(*, a11y: tuple[A11yNode, ...] = (), windows: tuple[Window, ...] = ()) -> Observation:
    return make_observation(make_frame(width=160, height=120), a11y=a11y, windows=windows)


async def act(policy: ScriptedPolicy, observations: Sequence[Observation], *, trajectory_id: str = "t") -> list[Action]:
    """What the policy does, turn after turn, on what it sees."""
    actions = []
    for index, observation in enumerate(observations):
        reply = await policy.reply(make_request(observation, index=index, trajectory_id=trajectory_id))
        (action,) = get_dialect("compact").parse(reply.text, View.unscaled(160, 120)).actions
        actions.append(action)
    return actions


async def test_a_script_is_followed_one_step_a_turn() -> None:
    script: list[ScriptStep] = [
        Do(action=Press(keys=("ctrl", "s"))),
        ClickOn(app="editor", role="push button", name="Save"),
        ClickOn(app="Editor", role="push button", name="Save", nth=1, button="right", clicks=1),
        ClickOn(app="Editor", role="push button", name="Save", within="Save as", clicks=2),
        SayDone(),
    ]
    assert await act(ScriptedPolicy(script), [see(a11y=(EDITOR,))] * 5) == [
        Press(keys=("ctrl", "s")),
        Click(point=Point(x=25, y=25)),
        Click(point=Point(x=75, y=25), button="right"),
        Click(point=Point(x=110, y=85), clicks=2),
        Done(),
    ]


async def test_windows_are_waited_for_and_clicked() -> None:
    script: list[ScriptStep] = [
        WaitWindow(app="mousepad", title_contains="notes", pause_s=0.25),
        ClickWindow(app="mousepad", x=0.25, y=0.0),
        SayAnswer(text="42"),
    ]
    before = see(windows=(make_window("mousepad", "other"),))
    inactive = make_window("mousepad", "other", at=(0, 0, 40, 40), active=False)
    after = see(windows=(inactive, make_window("mousepad", "notes.txt", at=(20, 30, 80, 60))))
    assert await act(ScriptedPolicy(script), [before, before, after, after]) == [
        Wait(seconds=0.25),
        Wait(seconds=0.25),
        Click(point=Point(x=40, y=30)),
        Answer(text="42"),
    ]


async def test_a_window_is_waited_for_until_it_is_the_active_one() -> None:
    script: list[ScriptStep] = [WaitActive(app="mousepad", title_contains="notes", pause_s=0.25), SayDone()]
    below = make_window("mousepad", "notes.txt", active=False)
    dialog = make_window("mousepad", "Save Changes")
    shown = [see(windows=(dialog, below)), see(windows=(make_window("mousepad", "notes.txt"),))]
    assert await act(ScriptedPolicy(script), shown) == [Wait(seconds=0.25), Done()]


async def test_clicks_stay_on_the_screen() -> None:
    script: list[ScriptStep] = [ClickWindow(app="a", x=0.9, y=0.9), SayInfeasible(reason="no")]
    partly_outside = see(windows=(make_window("a", at=(100, 100, 200, 200)),))
    assert await act(ScriptedPolicy(script), [partly_outside] * 2) == [
        Click(point=Point(x=159, y=119)),
        Infeasible(reason="no"),
    ]


async def test_scaled_screenshots_are_clicked_in_their_own_pixels() -> None:
    observation = make_observation(make_frame(width=160, height=120), a11y=(EDITOR,))
    shown = (ContextTurn(index=0, frame=make_frame(width=80, height=60), reply=None, feedback=""),)
    policy = ScriptedPolicy([ClickOn(app="Editor", role="push button", name="Save"), SayDone()])
    reply = await policy.reply(make_request(observation, turns=shown))
    assert reply.text == "click 12 12"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            ClickOn(app="Editor", role="push button", name="Sav"),
            r"no push button 'Sav' showing in application 'Editor' \(step 1 of the script, after 2 looks\); "
            r"showing with role 'push button' are 'Save', 'Save', 'Save'",
        ),
        (ClickOn(app="Writer", role="frame", name="x"), "the applications are 'Editor'"),
        (ClickOn(app="Editor", role="push button", name="Hidden"), "1 of that role and name .* 0 of them showing"),
        (ClickOn(app="Editor", role="push button", name="Save", nth=7), "'Save' number 8 .*; 3 of that role and name"),
        (ClickOn(app="Editor", role="push button", name="Save", within="Open"), "inside 'Open'.*; 3 of that role"),
        (ClickOn(app="Editor", role="menu item", name="Save"), "with that name are of role push button"),
        (ClickOn(app="Editor", role="slider", name="zoom"), "roles that show are dialog, frame, push button"),
        (WaitWindow(app="gimp"), "no window of 'gimp' .*; the windows are mousepad 'notes'"),
        (WaitActive(app="gimp"), r"no active window of 'gimp' .*; the windows are mousepad 'notes' \(active\)"),
        (ClickWindow(app="mousepad", title_contains="x"), "no window of 'mousepad' with 'x' in its title"),
    ],
)
async def test_what_is_not_there_is_named_with_what_is(step: ScriptStep, message: str) -> None:
    step = step.model_copy(update={"looks": 2})
    observation = see(a11y=(EDITOR,), windows=(make_window("mousepad", "notes"),))
    with pytest.raises(ScriptFailed, match=message) as caught:
        await act(ScriptedPolicy([step, SayDone()]), [observation] * 3)
    assert isinstance(caught.value, PolicyError)


async def test_each_step_has_its_own_looks() -> None:
    missing = see(a11y=())
    there = see(a11y=(EDITOR,))
    step = ClickOn(app="Editor", role="push button", name="Save", looks=3)
    policy = ScriptedPolicy([step, step, SayDone()])
    kinds = [action.kind for action in await act(policy, [missing, missing, there, missing, missing, there, there])]
    assert kinds == ["wait", "wait", "click", "wait", "wait", "click", "done"]


async def test_one_policy_serves_several_episodes() -> None:
    policy = ScriptedPolicy([Do(action=Wait()), Do(action=Press(keys=("a",))), SayDone()])
    first = await act(policy, [see()] * 2, trajectory_id="one")
    assert await act(policy, [see()] * 3, trajectory_id="two") == [*first, Done()]
    assert await act(policy, [see()] * 3, trajectory_id="one") == [*first, Done()], "a new attempt starts anew"


def test_only_what_the_steps_need_is_observed() -> None:
    click_on = ClickOn(app="a", role="r", name="n")
    assert ScriptedPolicy([SayDone()]).wants == ()
    assert ScriptedPolicy([click_on, SayDone()]).wants == ("a11y",)
    assert ScriptedPolicy([WaitWindow(app="a"), SayDone()]).wants == ("windows",)
    assert set(ScriptedPolicy([ClickWindow(app="a"), click_on, SayDone()]).wants) == {"a11y", "windows"}


async def test_delays_are_drawn_from_the_turns_seed_and_end_at_the_deadline() -> None:
    policy = ScriptedPolicy([SayDone()], delays_s=(0.0, 0.01))
    assert (await policy.reply(make_request(see()))).text == "done"
    slow = ScriptedPolicy([SayDone()], delays_s=(60.0, 61.0))
    with pytest.raises(ReplyTimeout, match="pauses for 60"):
        await slow.reply(make_request(see(), deadline_s=0.01))


@pytest.mark.parametrize("steps", [[], [Do(action=Wait())], [SayDone(), Do(action=Wait())], [SayDone(), SayDone()]])
def test_scripts_end_exactly_once_and_last(steps: list[ScriptStep]) -> None:
    with pytest.raises(ValueError, match="must end with its last step"):
        ScriptedPolicy(steps)
    ScriptedPolicy([Do(action=Done())])


def test_scripts_are_json() -> None:
    script: tuple[ScriptStep, ...] = (
        Do(action=Click(point=Point(x=1, y=2))),
        ClickOn(app="a", role="push button", name="n", within="w"),
        ClickWindow(app="a"),
        WaitWindow(app="a", title_contains="t"),
        SayDone(),
    )
    data = script_json(script)
    assert data[1] == {"type": "click_on", "app": "a", "role": "push button", "name": "n", "within": "w"}
    assert parse_script(data) == script
    with pytest.raises(ValidationError, match="click_onn"):
        parse_script([{"type": "click_onn"}])
    with pytest.raises(ValidationError, match="Extra inputs"):
        parse_script([{"type": "done", "reason": "x"}])


def test_the_hash_names_the_script() -> None:
    assert ScriptedPolicy([SayDone()]).hash == ScriptedPolicy([SayDone()], name="other").hash
    assert ScriptedPolicy([SayDone()]).hash != ScriptedPolicy([Do(action=Wait()), SayDone()]).hash
