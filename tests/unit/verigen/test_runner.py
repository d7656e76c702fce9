"""The runner: what an episode sees of a task, and who is blamed when grading fails."""

from __future__ import annotations

import pytest

from agent.episode import run_episode
from agent.errors import GraderFailed, SetupFailed
from agent.harness import Harness
from agent.policies import AlwaysInfeasiblePolicy, NoopPolicy, ScriptedPolicy
from agent.policies.script import SayAnswer
from agent.task import EpisodeTask
from sandbox.actions import Done, Press
from sandbox.desktop import ExecResult
from sandbox.errors import DeadlineExceeded, DesktopError, DesktopLost
from sandbox.evidence import EvidenceItem, ProcessRequest
from sandbox.hub import Hub
from store.trajectory import Trajectory
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeBackend
from tests.support.evidence import file_item, ok
from tests.support.notes import NOTES, NotesDesktop, notes_bundle, typing
from verigen.assets import MemoryAssets
from verigen.bundle import Bundle
from verigen.checks import verifier_id
from verigen.errors import BundleError
from verigen.gates.fingerprint import difference, take_fingerprint
from verigen.record import record_examples
from verigen.runner import TaskRunner
from verigen.task import ExecStep, PressStep, SleepStep, TerminateStep, TextFileStep

BUNDLE = notes_bundle()


async def episode(bundle: Bundle, policy: object, desktop: NotesDesktop | None = None) -> Trajectory:
    return await run_episode(
        desktop or NotesDesktop(),
        TaskRunner(bundle, split="held-out"),
        Harness(),
        policy,  # type: ignore[arg-type]
        blobs=FakeBlobs(),
        seed_env=0,
        seed_sampling=0,
    )


async def test_an_episode_of_a_bundle() -> None:
    runner: EpisodeTask = TaskRunner(BUNDLE)
    assert (runner.id, runner.max_steps, runner.time_limit_s, runner.split) == (BUNDLE.id, 10, 20.0, "train")
    assert TaskRunner(BUNDLE.task).id not in ("", BUNDLE.id)
    done = await episode(BUNDLE, ScriptedPolicy(typing("bread\n")))
    assert (done.outcome, done.reward, done.split, done.task_id) == ("pass", 1.0, "held-out", BUNDLE.id)
    assert done.verifier_id == verifier_id(BUNDLE.task)
    assert [check["name"] for check in done.checks] == ["text:notes", "final_action:done"]
    for policy in (
        NoopPolicy(),
        AlwaysInfeasiblePolicy(),
        ScriptedPolicy(typing("bread", save=False)),
        ScriptedPolicy((*typing("bread\n")[:-1], SayAnswer(text="done"))),
    ):
        assert (await episode(BUNDLE, policy)).reward == 0.0


async def test_a_failed_setup_is_no_reward() -> None:
    bundle = notes_bundle(task_setup=(TextFileStep(path=NOTES, text="eggs"),), task_setup_asserts=())
    desktop = NotesDesktop()
    desktop.fail("put_file", DesktopLost("gone"))
    lost = await episode(bundle, NoopPolicy(), desktop)
    assert (lost.outcome, lost.reward) == ("infra_error", None)


async def test_a_setup_step_that_never_returns_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigen.steps.STEP_S", 0.05)
    monkeypatch.setattr("verigen.steps.GRACE_S", 0.05)
    desktop = NotesDesktop()
    desktop.hang("put_file")
    with pytest.raises(DeadlineExceeded, match="text_file did not come back") as caught:
        await TaskRunner(BUNDLE).prepare(desktop)
    assert caught.value.phase == "setup"


async def test_evidence_that_fails_once_is_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigen.runner.RETRY_S", 0.01)
    desktop = NotesDesktop(files={NOTES: b"milk\nbread\n"})

    class Hiccup(NotesDesktop):
        def _evidence_item(self, request: object) -> EvidenceItem:
            if len(self.calls("collect")) == 1:
                return EvidenceItem(status="error", reason="busy")
            return file_item(self.files[NOTES])

    assert (await TaskRunner(BUNDLE).grade(Hiccup(files=desktop.files), Done())).score == 1.0
    desktop.evidence["notes"] = EvidenceItem(status="error", reason="broken for good")
    with pytest.raises(GraderFailed, match="broken for good"):
        await TaskRunner(BUNDLE).grade(desktop, Done())
    assert len(desktop.calls("collect")) == 2


async def test_a_judge_that_raises_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("verigen.runner.judge", broken)
    with pytest.raises(GraderFailed, match="ZeroDivisionError: oh"):
        await TaskRunner(BUNDLE).grade(NotesDesktop(), Done())


async def test_the_flush_recipe_runs_before_the_evidence_is_taken() -> None:
    settle = (PressStep(keys=("escape",)), SleepStep(seconds=0.01), ExecStep(argv=("sync",)))
    desktop = NotesDesktop()
    await TaskRunner(notes_bundle(task_settle=settle)).grade(desktop, Done())
    calls = [event.call for event in desktop.events]
    assert calls == ["step", "exec", "step", "collect"]
    assert desktop.acted == [Press(keys=("escape",))]
    refusing = NotesDesktop(exec_handler=lambda argv: (_ for _ in ()).throw(DesktopLost("gone")))
    with pytest.raises(DesktopLost):
        await TaskRunner(notes_bundle(task_settle=settle)).grade(refusing, Done())


async def test_a_program_that_will_not_end_does_not_stop_the_grading() -> None:
    stubborn = TerminateStep(process="editor", timeout_s=0.05)
    desktop = NotesDesktop(files={NOTES: b"milk\nbread\n"}, evidence={"it": ok([{"pid": 7, "argv": ["editor"]}])})
    assert (await TaskRunner(notes_bundle(task_settle=(stubborn,))).grade(desktop, Done())).score == 1.0
    broken = NotesDesktop(
        exec_handler=lambda argv: ExecResult(
            exit_code=1, stdout=b"", stderr=b"disk full", truncated=False, timed_out=False, seconds=0.0
        )
    )
    with pytest.raises(GraderFailed, match="disk full"):
        await TaskRunner(notes_bundle(task_settle=(ExecStep(argv=("sync",)),))).grade(broken, Done())


async def test_a_fingerprint_leaves_process_ids_out_and_nothing_else() -> None:
    async def of(**entry: object) -> frozenset[str]:
        desktop = NotesDesktop(evidence={"it": ok([{"pid": 7, "argv": ["editor"], **entry}])})
        return await take_fingerprint(desktop, (ProcessRequest(name="it", process="editor"),))

    assert await of() == await of(pid=8)
    assert difference(await of(), await of(argv=["editor", "x"])) != ""


async def test_examples_are_recorded_and_complete_the_bundle() -> None:
    async with Hub(FakeBackend(make=NotesDesktop), capacity=2) as hub:
        recorded = await record_examples(notes_bundle(examples=None), MemoryAssets(), hub)
        assert recorded.examples is not None
        assert recorded == BUNDLE  # the hand-written examples say what really happens
        with pytest.raises(BundleError, match=r"oracle does not score 1: .*'braed', expected 'bread'"):
            await record_examples(notes_bundle(oracle=typing("braed\n")), MemoryAssets(), hub)
        wrong = notes_bundle(task_setup=(ExecStep(argv=("false",)),))
    failing = FakeBackend(make=lambda spec: _failing(NotesDesktop(spec)))
    async with Hub(failing, capacity=2) as hub:
        with pytest.raises(DesktopError, match="gone"):
            await record_examples(wrong, MemoryAssets(), hub)


def _failing(desktop: NotesDesktop) -> NotesDesktop:
    desktop.fail("exec", DesktopLost("gone"))
    return desktop


async def test_what_cannot_be_set_up_names_step_expectation_and_finding() -> None:
    with pytest.raises(SetupFailed) as caught:
        await TaskRunner(notes_bundle(task_setup=BUNDLE.task.setup[2:])).prepare(NotesDesktop())
    assert "setup step 1 of 1 (wait_window): expected a window of editor" in str(caught.value)
    assert "found no window at all" in str(caught.value)
