"""One attempt: what is asked, done, recorded and judged, and how every failure becomes data."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from agent import Harness, run_episode, turns
from agent.errors import GraderFailed, PolicyError, ReplyTimeout, ScriptFailed, SetupFailed
from agent.harness import Limits
from agent.policies import Do, NoopPolicy, SayDone, ScriptedPolicy
from agent.policy import Policy, PolicyReply, PolicyRequest
from agent.task import EpisodeTask
from agent.turns import turn_seed
from sandbox.actions import Click, Done, Point, Wait
from sandbox.desktop import Desktop
from sandbox.errors import DesktopLost, ProbeLost
from sandbox.frame import Frame
from store.trajectory import TokenTrace, Trajectory
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeDesktop
from tests.support.policy import HANG, FakePolicy
from tests.support.screen import make_frame, make_window
from tests.support.task import FakeTask, make_grade

FRAMES = [make_frame(shade) for shade in range(6)]
HASHES = [frame.sha256 for frame in FRAMES]


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "GRACE_S", 0.05)


async def attempt(
    policy: Policy,
    *,
    desktop: Desktop | None = None,
    task: EpisodeTask | None = None,
    harness: Harness | None = None,
    blobs: FakeBlobs | None = None,
    **options: Any,
) -> Trajectory:
    seeds = {"seed_env": 3, "seed_sampling": 4}
    trajectory = await run_episode(
        desktop if desktop is not None else FakeDesktop(frames=FRAMES),
        task if task is not None else FakeTask(),
        harness if harness is not None else Harness(),
        policy,
        blobs=blobs if blobs is not None else FakeBlobs(),
        **{**seeds, **options},
    )
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    return trajectory


def limits(**fields: Any) -> Harness:
    return Harness(limits=Limits(**fields))


async def test_a_passing_attempt_is_recorded_whole() -> None:
    desktop = FakeDesktop(frames=FRAMES, windows=[make_window("mousepad", "notes")])
    task = FakeTask()
    blobs = FakeBlobs()
    policy = FakePolicy(["# first\nclick 5 6", "press a\nwait 0", "done"], name="actor", hash="h", wants=("windows",))
    trajectory = await attempt(
        policy, desktop=desktop, task=task, blobs=blobs, group_id="g", trajectory_id="t", now=lambda: 123.0
    )
    assert (trajectory.outcome, trajectory.reward, trajectory.stop_reason) == ("pass", 1.0, "done")
    assert (trajectory.id, trajectory.group_id, trajectory.actor, trajectory.policy_hash) == ("t", "g", "actor", "h")
    assert (trajectory.seed_env, trajectory.seed_sampling, trajectory.started_at) == (3, 4, 123.0)
    assert (trajectory.task_id, trajectory.split, trajectory.image_digest) == ("task-1", "train", "sha256:fake")
    assert trajectory.harness_hash == Harness().hash
    assert trajectory.final_action == {"kind": "done"}
    assert trajectory.checks == ({"name": "check", "score": 1.0, "reason": "as scripted"},)
    assert trajectory.verifier_id == "fake-verifier"
    assert set(trajectory.timings_ms) == {"setup", "grade"}
    first, second, third = trajectory.turns
    assert first.thought == "first"
    assert first.actions == ({"kind": "click", "point": {"x": 5, "y": 6}},)
    assert [turn.frame for turn in trajectory.turns] == HASHES[:3]
    assert trajectory.final_frame == HASHES[2]
    assert [turn.visible for turn in trajectory.turns] == [(0,), (0, 1), (0, 1, 2)]
    assert (first.changed, second.changed, third.changed) == (True, True, None)
    assert first.facts == {"active_window": "notes", "clock_s": 1_700_000_000.0}
    assert set(first.timings_ms) == {"policy", "parse", "step"}
    assert task.prepared == [desktop]
    assert task.graded == [Done()]
    # One round trip a turn: the first look, two steps; `done` reaches no desktop, and nothing is observed twice.
    assert [event.call for event in desktop.events] == ["step"] * 3
    assert [call["request_id"] for call in desktop.calls("step")] == ["t:look", "t:0", "t:1"]
    assert all(call["want"] == ("frame", "windows") for call in desktop.calls("step"))
    assert all(call["settle"] == Harness().settle.settle() for call in desktop.calls("step"))
    assert trajectory.blobs <= set(blobs.data)
    assert [Frame.decode(blobs.data[name]) for name in HASHES[:3]] == FRAMES[:3]
    assert json.loads(blobs.data[trajectory.evidence or ""]) == {"items": {}, "clock_s": 0.0}


async def test_requests_carry_what_the_harness_says() -> None:
    harness = Harness(window=2, delta=1, max_side=80, placeholder="[gone]", observe=("frame", "windows"))
    desktop = FakeDesktop(frames=FRAMES, windows=[make_window("mousepad", "notes")])
    policy = FakePolicy(["click 1 1", "click 2 2", "click 3 3", "done"])
    await attempt(policy, desktop=desktop, harness=harness)
    assert [[turn.frame is not None for turn in request.turns] for request in policy.requests] == [
        [True],
        [True, True],
        [False, True, True],
        [False, False, True, True],
    ]
    last = policy.requests[-1]
    assert [turn.reply for turn in last.turns] == ["click 1 1", "click 2 2", "click 3 3", None]
    newest = last.turns[-1].frame
    assert newest is not None
    assert (newest.width, newest.height) == (80, 60)
    assert last.observation.frame == FRAMES[3]
    assert desktop.acted[0] == Click(point=Point(x=3, y=3)), "the dialect counts in the pixels shown"
    assert "80x60" in last.system_prompt
    assert last.turns[-1].feedback == "Windows:\n- mousepad 'notes' (active)"
    assert (last.placeholder, last.dialect, last.instruction) == ("[gone]", "compact", "Do the scripted thing.")
    assert [request.seed for request in policy.requests] == [turn_seed(4, index) for index in range(4)]
    assert len({turn_seed(seed, index) for seed in range(20) for index in range(20)}) == 400


@pytest.mark.parametrize(
    ("of_task", "of_harness", "of_reply", "lowest"),
    [(500.0, None, 120.0, 120.0), (50.0, None, 120.0, 50.0), (500.0, 40.0, 120.0, 40.0), (30.0, 40.0, 120.0, 30.0)],
)
async def test_the_lowest_limit_is_a_replys_deadline(
    of_task: float, of_harness: float | None, of_reply: float, lowest: float
) -> None:
    policy = FakePolicy(["done"])
    harness = limits(time_limit_s=of_harness, reply_limit_s=of_reply)
    await attempt(policy, task=FakeTask(time_limit_s=of_task), harness=harness)
    assert lowest - 5 < policy.requests[0].deadline_s <= lowest


async def test_equal_screens_are_stored_once() -> None:
    blobs = FakeBlobs()
    trajectory = await attempt(FakePolicy(["wait 0", "wait 0", "done"]), blobs=blobs)
    assert [turn.frame for turn in trajectory.turns] == HASHES[:1] * 3
    assert blobs.puts.count(HASHES[0]) == 1


async def test_a_blob_store_with_other_names_is_found_out() -> None:
    class Salted(FakeBlobs):
        def put(self, data: bytes) -> str:
            return super().put(b"salt" + data)

    with pytest.raises(AssertionError, match="another hash"):
        await attempt(NoopPolicy(), blobs=Salted())


async def test_unreadable_output_is_told_and_counted() -> None:
    policy = FakePolicy(["jump", "click 1 1", "jump", "jump", "jump"])
    desktop = FakeDesktop(frames=FRAMES)
    task = FakeTask()
    trajectory = await attempt(policy, desktop=desktop, task=task, harness=limits(max_parse_errors=3))
    assert (trajectory.stop_reason, trajectory.outcome, trajectory.reward) == ("parse_errors", "fail", 0.0)
    assert len(trajectory.turns) == 5, "the count starts again after a readable turn"
    first = trajectory.turns[0]
    assert first.parse_error is not None
    assert "no action 'jump'" in first.parse_error
    assert first.changed is None
    assert policy.requests[1].turns[-1].feedback == first.parse_error
    assert policy.requests[2].turns[-1].feedback == ""
    assert policy.requests[2].turns[1].feedback == first.parse_error, "feedback stays in the context"
    assert desktop.acted == [Click(point=Point(x=1, y=1))]
    assert task.graded == [None]


async def test_truncated_output_is_told_so() -> None:
    trajectory = await attempt(
        FakePolicy([PolicyReply(text="clic", truncated=True), PolicyReply(text="done", truncated=True)]),
        harness=limits(max_tokens=7),
    )
    assert "cut off at 7 tokens" in (trajectory.turns[0].parse_error or "")
    assert trajectory.outcome == "pass"


async def test_refused_actions_are_told_and_stop_what_follows() -> None:
    # The probe knows a smaller screen than the one that was seen.
    desktop = FakeDesktop(frames=[make_frame(k, width=320, height=240) for k in range(3)])
    policy = FakePolicy(["click 1 1\nclick 300 200\ndone", "done"])
    trajectory = await attempt(policy, desktop=desktop)
    first, second = trajectory.turns
    assert first.action_errors == ("click: (300, 200) is outside the 160x120 screen",)
    assert first.changed is True
    assert first.actions[-1] == {"kind": "done"}
    assert policy.requests[1].turns[-1].feedback == f"An action was refused: {first.action_errors[0]}"
    assert second.action_errors == ()
    assert trajectory.stop_reason == "done"


async def test_actions_before_the_ending_are_done_and_seen() -> None:
    desktop = FakeDesktop(frames=FRAMES)
    trajectory = await attempt(FakePolicy(["click 1 1\ndone"]), desktop=desktop)
    assert desktop.acted == [Click(point=Point(x=1, y=1))]
    assert (trajectory.turns[0].frame, trajectory.final_frame) == (HASHES[0], HASHES[1])


@pytest.mark.parametrize(
    ("text", "stop_reason", "kind"),
    [("done", "done", "done"), ("infeasible no", "infeasible", "infeasible"), ("answer 42", "answer", "answer")],
)
async def test_endings(text: str, stop_reason: str, kind: str) -> None:
    task = FakeTask(grade_with=lambda final: make_grade(0.25))
    trajectory = await attempt(FakePolicy([text]), task=task)
    assert trajectory.stop_reason == stop_reason
    assert (trajectory.final_action or {})["kind"] == kind
    assert (trajectory.outcome, trajectory.reward) == ("fail", 0.25)


@pytest.mark.parametrize(("of_task", "of_harness", "expected"), [(3, None, 3), (3, 2, 2), (2, 5, 2)])
async def test_steps_run_out(of_task: int, of_harness: int | None, expected: int) -> None:
    task = FakeTask(max_steps=of_task, grade_with=lambda final: make_grade(1.0 if final is None else 0.0))
    trajectory = await attempt(
        FakePolicy(itertools.repeat("click 1 1")), task=task, harness=limits(max_steps=of_harness)
    )
    assert trajectory.stop_reason == "max_steps"
    assert len(trajectory.turns) == expected
    assert trajectory.final_frame == HASHES[expected]
    assert trajectory.outcome == "pass", "what was left behind decides"
    assert trajectory.final_action is None


async def test_context_overflow_ends_it_and_is_graded() -> None:
    trajectory = await attempt(FakePolicy(["click 1 1", PolicyReply(text="", overflow=True)]))
    assert (trajectory.stop_reason, trajectory.outcome) == ("token_limit", "fail")
    assert len(trajectory.turns) == 1
    assert trajectory.final_frame == HASHES[1]


async def test_time_runs_out_between_turns() -> None:
    def slow(desktop: FakeDesktop, actions: object) -> None:
        clock.append(1000.0)

    clock: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(clock[1:]), perf_counter=time.perf_counter)
        patch.setattr(turns, "time", later)
        desktop = FakeDesktop(frames=FRAMES, on_step=slow)
        task = FakeTask(time_limit_s=500)
        trajectory = await attempt(FakePolicy(["click 1 1"]), desktop=desktop, task=task)
    assert (trajectory.stop_reason, trajectory.outcome) == ("time_limit", "fail")
    assert len(trajectory.turns) == 1
    assert task.graded == [None]


async def test_time_runs_out_while_the_policy_works() -> None:
    async def run(**options: Any) -> Trajectory:
        return await attempt(FakePolicy(["click 1 1", ReplyTimeout("still sampling")]), **options)

    short = await run(task=FakeTask(time_limit_s=50))
    assert (short.stop_reason, short.outcome) == ("time_limit", "fail")
    # With its own limit reached and time left, the policy has failed.
    long = await run(task=FakeTask(time_limit_s=500))
    assert (long.stop_reason, long.outcome) == ("policy_error", "infra_error")


@pytest.mark.parametrize("harness", [Harness(), limits(reply_limit_s=0.05)])
async def test_a_hanging_policy_is_never_graded(harness: Harness) -> None:
    task = FakeTask(time_limit_s=0.1)
    trajectory = await attempt(FakePolicy(["click 1 1", HANG]), task=task, harness=harness)
    assert (trajectory.outcome, trajectory.reward, trajectory.stop_reason) == ("infra_error", None, "policy_error")
    assert trajectory.error is not None
    assert (trajectory.error.phase, trajectory.error.type) == ("policy", "PolicyError")
    assert "fake hangs" in trajectory.error.message
    assert len(trajectory.turns) == 1
    assert task.graded == []


async def test_waits_are_cut_to_the_time_left() -> None:
    desktop = FakeDesktop(frames=FRAMES)
    trajectory = await attempt(
        FakePolicy(["wait 50", "done"]), desktop=desktop, task=FakeTask(time_limit_s=20), harness=Harness()
    )
    (wait,) = desktop.acted
    assert isinstance(wait, Wait)
    assert wait.seconds <= 20
    assert trajectory.turns[0].actions == ({"kind": "wait", "seconds": 50.0},), "the record has what the policy said"


@pytest.mark.parametrize(
    ("error", "phase", "stop_reason"),
    [
        (PolicyError("endpoint down"), "policy", "policy_error"),
        (ScriptFailed("button", seen="nothing"), "policy", "policy_error"),
    ],
)
async def test_policy_failures_are_data(error: Exception, phase: str, stop_reason: str) -> None:
    task = FakeTask()
    trajectory = await attempt(FakePolicy(["click 1 1", error]), task=task)
    assert (trajectory.outcome, trajectory.reward, trajectory.stop_reason) == ("infra_error", None, stop_reason)
    assert trajectory.error is not None
    assert (trajectory.error.phase, trajectory.error.message) == (phase, str(error))
    assert trajectory.error.type == type(error).__name__
    assert len(trajectory.turns) == 1
    assert task.graded == []


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_desktop_failures_are_data_at_every_step(nth: int) -> None:
    desktop = FakeDesktop(frames=FRAMES)
    desktop.fail("step", ProbeLost("gone", state={"oom": "1"}), nth=nth)
    task = FakeTask()
    trajectory = await attempt(FakePolicy(["click 1 1", "click 2 2", "done"]), desktop=desktop, task=task)
    assert (trajectory.outcome, trajectory.reward, trajectory.stop_reason) == ("infra_error", None, "infra_error")
    assert trajectory.error is not None
    assert (trajectory.error.phase, trajectory.error.state) == ("unknown", {"oom": "1"})
    assert len(trajectory.turns) == max(0, nth - 2), "a turn whose effect is unknown is not recorded as done"
    assert task.graded == []


async def test_a_hanging_desktop_is_a_failure_of_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "step_deadline_s", lambda actions: 0.01)
    for call, nth in (("step", 2), ("observe", 1)):
        desktop = FakeDesktop(frames=FRAMES)
        desktop.hang(call, nth=nth)
        trajectory = await attempt(FakePolicy(["click 1 1"], wants=("a11y",)), desktop=desktop)
        assert trajectory.error is not None
        assert (trajectory.error.type, trajectory.error.phase) == ("DeadlineExceeded", "infra")


async def test_setup_failures_are_data() -> None:
    cases: list[tuple[BaseException, str]] = [
        (SetupFailed("no such window"), "setup"),
        (DesktopLost("X died"), "infra"),
        (DesktopLost("X died", phase="setup"), "setup"),
    ]
    for error, phase in cases:
        task = FakeTask(setup_error=error)
        trajectory = await attempt(FakePolicy([]), task=task)
        assert (trajectory.outcome, trajectory.stop_reason) == ("infra_error", "infra_error")
        assert trajectory.error is not None
        assert (trajectory.error.phase, trajectory.error.message) == (phase, str(error))
        assert (trajectory.turns, trajectory.final_frame, task.graded) == ((), None, [])


async def test_a_setup_that_hangs_ends() -> None:
    class Hangs(FakeTask):
        async def prepare(self, desktop: Desktop) -> None:
            await asyncio.Event().wait()

    trajectory = await attempt(FakePolicy([]), task=Hangs(), harness=limits(setup_limit_s=0.02))
    assert trajectory.error is not None
    assert (trajectory.error.phase, trajectory.error.message) == ("setup", "the setup was not over after 0.02 s")


async def test_grader_failures_are_data() -> None:
    def broken(final: object) -> Any:
        raise GraderFailed("the judge broke on \udcff")

    trajectory = await attempt(NoopPolicy(), task=FakeTask(grade_with=broken))
    assert (trajectory.outcome, trajectory.reward, trajectory.stop_reason) == ("infra_error", None, "infra_error")
    assert trajectory.error is not None
    assert (trajectory.error.phase, trajectory.error.message) == ("grader", "the judge broke on ?")
    assert trajectory.final_action == {"kind": "done"}, "how the policy ended it is kept for grading again"
    assert len(trajectory.turns) == 1


async def test_a_grader_that_hangs_ends() -> None:
    class Hangs(FakeTask):
        async def grade(self, desktop: Desktop, final: object) -> Any:
            await asyncio.Event().wait()

    trajectory = await attempt(NoopPolicy(), task=Hangs(), harness=limits(grade_limit_s=0.02))
    assert trajectory.error is not None
    assert trajectory.error.phase == "grader"


@pytest.mark.parametrize("where", ["setup", "step", "policy", "grade"])
async def test_cancellation_passes_through(where: str) -> None:
    class Task(FakeTask):
        async def prepare(self, desktop: Desktop) -> None:
            if where == "setup":
                await asyncio.Event().wait()

        async def grade(self, desktop: Desktop, final: object) -> Any:
            await asyncio.Event().wait()

    desktop = FakeDesktop(frames=FRAMES)
    if where == "step":
        desktop.hang("step")
    policy = FakePolicy([HANG if where == "policy" else "done"])
    running = asyncio.ensure_future(attempt(policy, desktop=desktop, task=Task()))
    await asyncio.sleep(0.05)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_bugs_are_not_hidden() -> None:
    with pytest.raises(KeyError):
        await attempt(FakePolicy([KeyError("a bug in the policy")]))


async def test_tokens_and_versions_are_kept() -> None:
    trace = TokenTrace(
        sent_ids=(1,),
        prompt_ids=(1, 1),
        sampled_ids=(2,),
        logprobs=(-0.5,),
        sampled_mask=(True,),
        action_mask=(True,),
        version_span=(6, 7),
    )
    trajectory = await attempt(
        FakePolicy([PolicyReply(text="click 1 1", tokens=trace, version=7), PolicyReply(text="done", version=6)])
    )
    assert trajectory.turns[0].tokens == trace
    assert trajectory.turns[1].tokens is None
    assert trajectory.policy_version == 6, "the oldest version decides how stale it is"


async def test_text_that_no_file_takes_is_made_storable() -> None:
    trajectory = await attempt(FakePolicy(["# \ud800\ndone"]))
    assert trajectory.turns[0].raw == "# ?\ndone"


async def test_a_script_runs_like_any_policy() -> None:
    def grade(final: object) -> Any:
        return make_grade(1.0 if desktop.acted and final == Done() else 0.0)

    desktop = FakeDesktop(frames=FRAMES)
    script = ScriptedPolicy([Do(action=Click(point=Point(x=3, y=4))), SayDone()])
    trajectory = await attempt(script, desktop=desktop, task=FakeTask(grade_with=grade))
    assert (trajectory.actor, trajectory.outcome) == ("oracle", "pass")
    assert (await attempt(NoopPolicy(), task=FakeTask(grade_with=lambda final: make_grade(0.0)))).outcome == "fail"


async def test_two_attempts_of_equal_seeds_are_equal() -> None:
    def echo(request: PolicyRequest) -> str:
        return f"click {request.seed % 160} {request.seed % 120}"

    def plain(trajectory: Trajectory) -> dict[str, Any]:
        data = trajectory.model_dump(exclude={"id", "started_at", "seconds", "timings_ms"})
        for turn in data["turns"]:
            del turn["timings_ms"]
        return data

    one, two = [plain(await attempt(FakePolicy([echo, echo, "done"]))) for _ in range(2)]
    other = plain(await attempt(FakePolicy([echo, echo, "done"]), seed_sampling=5))
    assert one == two
    assert one["turns"] != other["turns"]
