"""Verification as a whole, on desktops in memory: a sound bundle is admitted, a broken twin falls at the right gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.policies.script import ClickOn, Do, SayDone, SayInfeasible
from sandbox.actions import Done, Press, TypeText
from sandbox.desktop import DesktopSpec
from sandbox.errors import DesktopLost, ImageError
from sandbox.evidence import Evidence, EvidenceItem, FileRequest, WindowsRequest
from sandbox.hub import Hub
from store.catalog import Catalog
from store.trajectory import Trajectory
from tests.support.desktop import FakeBackend
from tests.support.evidence import file_item, make_evidence, ok
from tests.support.notes import NOTES, NotesDesktop, notes_bundle, typing
from verigen.assets import MemoryAssets
from verigen.bundle import Bundle, Example, Examples, Negative, Solution
from verigen.checks.model import AllOf, AnyOf, FinalActionCheck, TextCheck, WindowCheck
from verigen.gates.bench import Progress
from verigen.proof import Proof
from verigen.task import AssetStep, ExecStep, LaunchStep, SleepStep, TerminateStep, TextFileStep, WaitWindowStep
from verigen.verify import verify

Make = Callable[[DesktopSpec], NotesDesktop]
DONE = FinalActionCheck(kind="done")


class World:
    """A hub of desktops in memory."""

    def __init__(self, make: Make = NotesDesktop) -> None:
        self.backend = FakeBackend(make=make)
        self.hub = Hub(self.backend, capacity=4)
        self.progress: list[Progress] = []
        self.trajectories: list[Trajectory] = []

    async def verify(self, bundle: Bundle, **options: Any) -> Proof:
        return await verify(
            bundle,
            MemoryAssets(),
            self.hub,
            **{
                "image_digest": "sha256:fake",
                "delays_s": (0.0, 0.01),
                "progress": self.progress.append,
                "on_trajectory": self.trajectories.append,
                **options,
            },
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with made.hub:
        yield made


async def verified(bundle: Bundle, make: Make = NotesDesktop, **options: Any) -> tuple[Proof, World]:
    made = World(make)
    async with made.hub:
        return await made.verify(bundle, **options), made


def stopped_by(proof: Proof) -> tuple[str, str]:
    gate = proof.stopped_by
    return ("", "") if gate is None else (gate.gate, gate.outcome)


async def test_a_sound_bundle_is_admitted(world: World) -> None:
    proof = await world.verify(notes_bundle())
    assert proof.passed, proof.stopped_by
    assert [gate.gate for gate in proof.gates] == ["G0", "G1", "G2", "G3", "G4", "G5", "G6"]
    assert len(world.backend.booted) == 5 + 4 + 1  # setup, no-op and oracle share their desktops
    actors = [trajectory.actor for trajectory in world.trajectories]
    assert actors.count("oracle") == 5
    assert {trajectory.task_id for trajectory in world.trajectories} == {notes_bundle().id}
    assert world.progress[-1].done == world.progress[-1].total == 1
    assert [one.note for one in world.progress if one.gates == "G2-G4"] == ["oracle 1"] * 5


async def test_a_flush_recipe_that_ends_programs_gets_desktops_of_its_own(world: World) -> None:
    proof = await world.verify(notes_bundle(task_settle=(TerminateStep(process="editor", timeout_s=0.1),)))
    assert proof.passed, proof.stopped_by
    assert len(world.backend.booted) == 3 + 5 + 4 + 1


def passes_at_the_start() -> Bundle:
    # What the examples say of the start state is not what the setup makes of it.
    return notes_bundle(
        task_setup=(
            TextFileStep(path=NOTES, text="milk\nbread\n"),
            LaunchStep(argv=("editor", NOTES)),
            WaitWindowStep(app="editor"),
        ),
        task_setup_asserts=(),
    )


def unreachable() -> Bundle:
    golden = Example(evidence=make_evidence(notes=file_item("milk\nbutter\n")), final={"kind": "done"})
    initial = Example(evidence=make_evidence(notes=file_item("milk\n")), final=None)
    return notes_bundle(
        task_check=AllOf(of=(TextCheck(item="notes", expected="milk\nbutter\n"), DONE)),
        examples=Examples(golden=golden, initial=initial),
    )


def proxy() -> Bundle:
    return notes_bundle(
        task_check=AllOf(of=(TextCheck(item="notes", match="contains", expected="bread"), DONE)),
    )


def negative_that_cannot_be_done() -> Bundle:
    script = (ClickOn(app="editor", role="push button", name="Save", looks=1), SayDone())
    bundle = notes_bundle()
    return notes_bundle(negatives=(*bundle.negatives[:3], Negative(name="no button", why="x", script=script)))


def asset_missing() -> Bundle:
    return notes_bundle(task_setup=(AssetStep(path=NOTES, sha256="0" * 64), *notes_bundle().task.setup[1:]))


def window_never_comes() -> Bundle:
    return notes_bundle(task_setup=(*notes_bundle().task.setup, WaitWindowStep(app="browser", timeout_s=0.1)))


def assertion_wrong() -> Bundle:
    return notes_bundle(task_setup=(TextFileStep(path=NOTES, text="eggs\n"), *notes_bundle().task.setup[1:]))


def judge_wrong_on_golden() -> Bundle:
    return notes_bundle(task_check=AllOf(of=(TextCheck(item="notes", expected="milk\nbread!\n"), DONE)))


def judge_pays_for_nothing() -> Bundle:
    either = AnyOf(of=(TextCheck(item="notes", expected="milk\nbread"), TextCheck(item="notes", expected="milk")))
    return notes_bundle(task_check=AllOf(of=(either, DONE)))


def looks_too_little() -> Bundle:
    loose = TextCheck(item="notes", match="regex", expected=r"[a-z\s]*bread[a-z\s]*|[a-z\s]*br[a-z\s]*")
    return notes_bundle(task_check=AllOf(of=(loose, DONE)))


def looks_at_too_much() -> Bundle:
    """A window of some other program, which has nothing to do with the task, would fail it."""
    windows = ok([{"app": "editor", "title": "notes.txt"}])
    examples = notes_bundle().examples
    assert examples is not None
    return notes_bundle(
        task_evidence=(*notes_bundle().task.evidence, WindowsRequest(name="windows")),
        task_check=AllOf(
            of=(
                TextCheck(item="notes", expected="milk\nbread"),
                WindowCheck(item="windows", app="editor", title_contains="notes.txt"),
                WindowCheck(item="windows", app="stranger", open=False),
                DONE,
            )
        ),
        examples=Examples(
            golden=Example(evidence=with_item(examples.golden.evidence, windows), final=Done()),
            initial=Example(evidence=with_item(examples.initial.evidence, windows), final=None),
        ),
    )


def with_item(evidence: Evidence, item: EvidenceItem) -> Evidence:
    return evidence.model_copy(update={"items": {**evidence.items, "windows": item}})


def no_examples() -> Bundle:
    return notes_bundle(examples=None)


def existence_only() -> Bundle:
    return notes_bundle(task_check=AllOf(of=(TextCheck(item="notes", match="regex", expected="(?s).*"), DONE)))


def pays_for_giving_up() -> Bundle:
    return notes_bundle(task_check=TextCheck(item="notes", expected="milk\nbread"))


def too_few_negatives() -> Bundle:
    return notes_bundle(negatives=notes_bundle().negatives[:3])


def over_specified() -> Bundle:
    exact = TextCheck(item="notes", expected="milk\nbread\n", ignore_trailing_whitespace=False)
    return notes_bundle(task_check=AllOf(of=(exact, DONE)))


@pytest.mark.parametrize(
    ("make", "gate", "detail"),
    [
        (existence_only, "G0", "merely existing"),
        (pays_for_giving_up, "G0", "after `infeasible`"),
        (too_few_negatives, "G0", "bring 4 or more"),
        (judge_wrong_on_golden, "G1", "golden evidence scores 0"),
        (judge_pays_for_nothing, "G1", "initial evidence scores 1"),
        (looks_too_little, "G1", "10 of 16 breaking changes"),
        (looks_at_too_much, "G1", "changes that must not matter lowered the score: windows: moved"),
        (no_examples, "G1", "record them"),
        (asset_missing, "G2", "setup step 1 of 3 (asset): expected the asset for /home/user/notes.txt"),
        (window_never_comes, "G2", "setup step 4 of 4 (wait_window): expected a window of browser"),
        (passes_at_the_start, "G3", "doing nothing scores 1 with done"),
        (unreachable, "G4", "line 2 is 'bread', expected 'butter'"),
        (proxy, "G5", "'on the same line twice' passes, but must not"),
        (negative_that_cannot_be_done, "G5", "'no button' cannot be carried out"),
        (over_specified, "G6", "'without the last line end' does not pass, but should"),
    ],
)
async def test_each_broken_twin_falls_at_its_gate(make: Callable[[], Bundle], gate: str, detail: str) -> None:
    proof, _ = await verified(make())
    assert stopped_by(proof) == (gate, "failed"), proof.stopped_by
    assert detail in proof.gates[-1].detail


async def test_an_assertion_that_does_not_hold_fails_the_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigen.setup.ASSERT_S", 0.2)
    proof, _ = await verified(assertion_wrong())
    assert stopped_by(proof) == ("G2", "failed")
    assert "line 1 is 'eggs', expected 'milk'" in proof.gates[-1].detail


async def test_unequal_start_states_fail_the_setup() -> None:
    numbers = iter(range(100))

    def make(spec: DesktopSpec) -> NotesDesktop:
        return NotesDesktop(spec, evidence={"other": file_item(f"{next(numbers)}")})

    bundle = notes_bundle(
        task_evidence=(FileRequest(name="notes", path=NOTES), FileRequest(name="other", path="/x")),
        task_check=AllOf(
            of=(
                TextCheck(item="notes", expected="milk\nbread\n"),
                AnyOf(of=(DONE, TextCheck(item="other", expected="x"))),
                DONE,
            )
        ),
        examples=Examples(
            golden=Example(
                evidence=make_evidence(notes=file_item("milk\nbread\n"), other=file_item("0")),
                final={"kind": "done"},
            ),
            initial=Example(evidence=make_evidence(notes=file_item("milk\n"), other=file_item("0")), final=None),
        ),
    )
    proof, _ = await verified(bundle, make)
    assert stopped_by(proof) == ("G2", "failed")
    assert "another start state" in proof.gates[-1].detail


async def test_an_oracle_that_only_works_at_one_speed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor loses what is typed more than 0.2 s after it opened."""

    class Hasty(NotesDesktop):
        opened_at = 0.0

        async def spawn(self, *args: Any, **options: Any) -> int:
            self.opened_at = asyncio.get_running_loop().time()
            return await super().spawn(*args, **options)

        async def step(self, actions: Any, **options: Any) -> Any:
            late = asyncio.get_running_loop().time() - self.opened_at > 0.2
            kept = tuple(action for action in actions if not (late and isinstance(action, TypeText)))
            return await super().step(kept, **options)

    proof, _ = await verified(notes_bundle(), Hasty, delays_s=(0.3, 0.4))
    assert stopped_by(proof) == ("G4", "failed")


async def test_an_infrastructure_failure_is_tried_again_and_told() -> None:
    made: list[NotesDesktop] = []

    def make(spec: DesktopSpec) -> NotesDesktop:
        desktop = NotesDesktop(spec)
        made.append(desktop)
        if len(made) == 2:
            desktop.fail("collect", DesktopLost("the X server died"))
        return desktop

    proof, _ = await verified(notes_bundle(), make)
    assert proof.passed
    told = [gate.gate for gate in proof.gates if any("the X server died" in line for line in gate.attempts)]
    assert told == ["G2", "G3", "G4"]


@pytest.mark.parametrize("call", ["step", "collect", "spawn"])
async def test_a_lasting_infrastructure_failure_proves_nothing(call: str) -> None:
    def make(spec: DesktopSpec) -> NotesDesktop:
        desktop = NotesDesktop(spec)
        desktop.fail(call, DesktopLost("gone"))
        return desktop

    proof, world = await verified(notes_bundle(), make)
    assert stopped_by(proof) == ("G2", "unproven")
    assert not proof.passed
    assert len(world.backend.booted) == 5 * 3


async def test_a_grader_s_failure_proves_nothing_about_an_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigen.runner.RETRY_S", 0.01)

    def make(spec: DesktopSpec) -> NotesDesktop:
        desktop = NotesDesktop(spec)

        def edit(fake: Any, actions: Any) -> None:
            NotesDesktop._edit(fake, actions)
            if any(isinstance(action, Press) for action in actions):
                fake.evidence["notes"] = EvidenceItem(status="error", reason="the collector died")

        desktop.on_step = edit
        return desktop

    proof, _ = await verified(notes_bundle(), make)
    # The trials cannot be finished, so not even what they saw before is taken as shown.
    assert stopped_by(proof) == ("G2", "unproven")
    assert "the collector died" in proof.gates[-1].attempts[0]


async def test_another_image_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="of image sha256:fake, but the proof is to be for sha256:other"):
        await world.verify(notes_bundle(), image_digest="sha256:other")


async def test_a_machine_that_cannot_run_desktops_says_so() -> None:
    made = World()
    made.backend.fail("boot", ImageError("build it first"))
    async with made.hub:
        with pytest.raises(ImageError, match="build it first"):
            await made.verify(notes_bundle(), limit=1)


async def test_proofs_are_stored_and_used_again(world: World, tmp_path: Path) -> None:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as catalog:
        bundle = notes_bundle()
        first = await world.verify(bundle, catalog=catalog, split="held-out")
        booted = len(world.backend.booted)
        assert await world.verify(bundle, catalog=catalog) == first
        assert len(world.backend.booted) == booted
        row = catalog.bundles(proven=True)[0]
        assert (row.id, row.split) == (bundle.id, "held-out")
        assert Bundle.model_validate(row.document).id == bundle.id
        again = await world.verify(bundle, catalog=catalog, force=True)
        assert again.created_at > first.created_at
        assert len(catalog.proofs(bundle.id)) == 1
        # another bundle is another key: nothing of this proof counts for it
        other = await world.verify(proxy(), catalog=catalog)
        assert not other.passed
        assert [found.id for found in catalog.bundles(proven=True)] == [bundle.id]


async def test_an_unproven_proof_is_not_used_again(tmp_path: Path) -> None:
    broken = True

    def make(spec: DesktopSpec) -> NotesDesktop:
        desktop = NotesDesktop(spec)
        if broken:
            desktop.fail("step", DesktopLost("gone"))
        return desktop

    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as catalog:
        proof, _ = await verified(notes_bundle(), make, catalog=catalog)
        assert proof.outcome == "unproven"
        assert catalog.bundles(proven=True) == []
        broken = False
        proof, _ = await verified(notes_bundle(), make, catalog=catalog)
        assert proof.passed


async def test_an_infeasible_task_is_admitted_when_only_infeasible_passes(world: World) -> None:
    demand = AllOf(of=(TextCheck(item="notes", expected="milk\n"), FinalActionCheck(kind="infeasible")))
    evidence = make_evidence(notes=file_item("milk\n"))
    bundle = notes_bundle(
        task_feasible=False,
        task_check=demand,
        task_settle=(SleepStep(seconds=0.01),),
        oracle=(SayInfeasible(reason="the editor cannot fly"),),
        alternatives=(Solution(name="looks first", script=(Do(action=Press(keys=("F1",))), SayInfeasible())),),
        negatives=(
            Negative(name="claims it", why="nothing was done", script=(SayDone(),)),
            Negative(name="types it", why="it is not possible", script=typing("it flies\n")),
            Negative(
                name="changes the file",
                why="the file must stay",
                script=(*typing("x")[:-1], SayInfeasible()),
            ),
            Negative(
                name="replaces the file",
                why="the file must stay",
                before=(ExecStep(argv=("true",)), TextFileStep(path=NOTES, text="eggs")),
                script=(SayInfeasible(),),
            ),
        ),
        examples=Examples(
            golden=Example(evidence=evidence, final={"kind": "infeasible"}),
            initial=Example(evidence=evidence, final=None),
        ),
    )
    proof = await world.verify(bundle)
    assert proof.passed, proof.stopped_by
