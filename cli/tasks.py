"""`frontdesk tasks`: which tasks there are, what proves them, and moving them in and out."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command, group
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption, lender
from cli.output import MARKS, Mark, Output, age, facts, table
from cli.tasks_stats import register as register_stats
from cli.workspace import FoundTask, Workspace, named_split, open_workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cli.progress import Progress
    from sandbox.hub import Lender
    from verigen.bundle import Bundle
    from verigen.proof import Proof

__all__ = ["app"]

app = group(
    "Tasks: what an agent is asked to do, how the result is checked, and the proof that the check can be trusted.\n\n"
    "A task is named by its name, the beginning of its id, or the folder of its bundle."
)

Ref = Annotated[str, typer.Argument(metavar="TASK", help="A name, the beginning of an id, or a bundle's folder.")]
GATE_MARKS: dict[str, Mark] = {"passed": "ok", "failed": "bad", "unproven": "warn"}


@command(
    app,
    "list",
    examples={
        "frontdesk tasks list": "all of them, with the state of their proofs",
        "frontdesk tasks list --app mousepad --unproven": "what is left to verify for an app",
    },
)
def list_(
    app: Annotated[str | None, typer.Option(help="Only tasks of this app.", show_default=False)] = None,
    split: Annotated[str | None, typer.Option(help="Only tasks of this split.", show_default=False)] = None,
    unproven: Annotated[bool, typer.Option("--unproven", help="Only tasks without a passed proof.")] = False,
    json: Json = False,
) -> None:
    """List the tasks: those that come with Frontdesk and those of the catalog."""
    output = Output(json=json)
    if split is not None:
        named_split(split)
    with open_workspace() as work:
        found = [(task, _newest_proof(work, task.bundle)) for task in work.tasks(app=app, split=split)]
        if unproven:
            found = [(task, proof) for task, proof in found if proof is None or not proof.passed]
    data = [_summary(task) | {"proof": proof and proof.outcome} for task, proof in found]
    rows = [
        (
            MARKS[GATE_MARKS[proof.outcome]] if proof else MARKS["none"],
            task.bundle.task.name,
            f"[dim]{task.bundle.id[:8]}[/dim]",
            ", ".join(task.bundle.task.apps),
            "" if task.bundle.task.feasible else "infeasible",
            _proof_text(proof),
        )
        for task, proof in found
    ]
    shown = table(["", "Name", "Id", "Apps", "", "Proof"], rows)
    output.result({"tasks": data}, shown if rows else "No task fits.")


@command(app, "show", examples={"frontdesk tasks show mousepad-final-minutes": "everything about one task"})
def show(task: Ref, json: Json = False) -> None:
    """Show one task: what is asked, how it is set up and checked, and its proofs."""
    output = Output(json=json)
    with open_workspace() as work:
        found = work.find(task)
        proofs = work.catalog.proofs(found.bundle.id)
    parts = [*_described(found.bundle), "", *([] if proofs else ["[dim]no proof yet: frontdesk tasks verify[/dim]"])]
    for proof in proofs:
        parts.append(
            f"{MARKS['ok' if proof.passed else 'bad']} proof on image {proof.image_digest[:12]}, "
            f"{age(time.time() - proof.created_at)} ago, took {proof.seconds:.0f} s"
        )
        parts += [f"  {_gate_line(gate['gate'], gate['outcome'], gate['detail'])}" for gate in proof.gates]
    output.result(_summary(found) | {"bundle": found.bundle, "proofs": proofs}, *parts)


@command(
    app,
    "verify",
    examples={
        "frontdesk tasks verify --all": "every task that has no settled proof yet",
        "frontdesk tasks verify mousepad-final-minutes --force": "one of them, though it is proven",
        "frontdesk tasks verify ./my-task": "a bundle on disk, before it is imported",
    },
)
def verify(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="Names, ids or bundle folders.", show_default=False)
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Every task there is.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run the gates even where a proof is stored.")] = False,
    desktops: Annotated[int, typer.Option(min=1, help="Desktops used at once, two or more for each task.")] = 2,
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Run the admission gates of tasks on fresh desktops and store the proofs.

    A task is proven when its setup, its no-op, its solution and its near misses all behave: the solution scores 1 every
    time, everything else less. Interrupt it when you like; proofs that are stored are not made again. Exit code 1 if
    any task is not proven.
    """
    from cli.image import require_image

    output = Output(json=json)
    with open_workspace() as work:
        chosen = work.tasks() if all else [work.find(ref) for ref in tasks or []]
        if not chosen:
            raise ValueError("name the tasks to verify, or say --all")
        digests = {task.bundle.task.desktop.profile: "" for task in chosen}
        for profile in digests:
            digests[profile] = require_image(output, work.home, profile, backend).digest
        with output.progress("Verifying", total=len(chosen)) as progress:
            proofs = asyncio.run(
                _verify(work, chosen, digests, progress, force=force, num_desktops=desktops, backend=backend)
            )
    failed = sum(not proof.passed for proof in proofs)
    data = [_summary(task) | {"proof": proof} for task, proof in zip(chosen, proofs, strict=True)]
    total = f"{len(proofs) - failed} of {len(proofs)} proven"
    output.result({"tasks": data, "proven": len(proofs) - failed}, f"{MARKS['bad' if failed else 'ok']} {total}")
    if failed:
        raise typer.Exit(FAILED)


@command(
    app,
    "import",
    examples={
        "frontdesk tasks import ./my-task": "one bundle",
        "frontdesk tasks import ./tasks/* --split held-out": "many, for evaluation only",
    },
)
def import_(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders that hold a bundle.json.")],
    split: Annotated[str, typer.Option(help="What they are for: train, validation or held-out.")] = "train",
    json: Json = False,
) -> None:
    """Put bundles from disk into the catalog.

    Importing proves nothing: verify them before anything trains on them.
    """
    from verigen.bundle import load_bundle

    output = Output(json=json)
    named_split(split)
    read = []
    for folder in folders:
        bundle, assets = load_bundle(folder)
        read.append(FoundTask(bundle=bundle, assets=assets, origin=str(folder)))
    with open_workspace() as work:
        new = [work.keep(task, split=split) for task in read]
    lines = [
        f"{MARKS['ok']} {task.bundle.task.name} [dim]{task.bundle.id[:8]}[/dim]{'' if added else ' (was there)'}"
        for task, added in zip(read, new, strict=True)
    ]
    output.result({"tasks": [_summary(task) | {"new": added} for task, added in zip(read, new, strict=True)]}, *lines)


@command(
    app,
    "export",
    examples={"frontdesk tasks export mousepad-final-minutes ./my-task": "a bundle to change or to share"},
)
def export(
    task: Ref,
    folder: Annotated[Path, typer.Argument(help="New or empty folder to write.")],
    json: Json = False,
) -> None:
    """Write a task's bundle to a folder, its assets included."""
    from verigen.bundle import save_bundle

    output = Output(json=json)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already and not an empty folder; choose another")
    with open_workspace() as work:
        found = work.find(task)
        save_bundle(found.bundle, folder, found.assets)
    output.result(_summary(found) | {"path": folder}, f"{MARKS['ok']} written to [cyan]{folder}[/cyan]")


register_stats(app)


async def _verify(
    work: Workspace,
    chosen: list[FoundTask],
    digests: dict[str, str],
    progress: Progress,
    *,
    force: bool,
    num_desktops: int,
    backend: Backend,
) -> list[Proof]:
    from verigen.packs import own_split
    from verigen.synth import PAUSES_S
    from verigen.verify import verify as run_gates

    per_task = min(num_desktops, max(2, num_desktops // len(chosen)))
    at_once = asyncio.Semaphore(num_desktops // per_task)

    async def prove(task: FoundTask, hub: Lender) -> Proof:
        name = task.bundle.task.name
        async with at_once:
            work.keep(task)
            proof = await run_gates(
                task.bundle,
                task.assets,
                hub,
                image_digest=digests[task.bundle.task.desktop.profile],
                catalog=work.catalog,
                force=force,
                limit=per_task,
                blobs=work.blobs,
                delays_s=PAUSES_S if own_split(task.bundle) else None,
                progress=lambda news: progress.now(f"{name} {news.gates} {news.done}/{news.total}: {news.note}"),
            )
        mark = MARKS[GATE_MARKS[proof.outcome]]
        progress.finished(f"{mark} [bold]{name}[/bold] [dim]{task.bundle.id[:8]}[/dim] {_proof_text(proof)}")
        for gate in proof.gates:
            progress.line(f"  {_gate_line(gate.gate, gate.outcome, gate.detail)}")
        return proof

    async with lender(work.home, desktops=num_desktops, backend=backend) as hub, asyncio.TaskGroup() as group:
        proving = [group.create_task(prove(task, hub)) for task in chosen]
    return [each.result() for each in proving]


def _newest_proof(work: Workspace, bundle: Bundle) -> Proof | None:
    """The newest proof on any image, whatever its outcome."""
    from verigen.proof import GateResult, Proof

    for row in work.catalog.proofs(bundle.id)[:1]:
        gates = tuple(GateResult.model_validate(gate) for gate in row.gates)
        return Proof.model_validate(row.model_dump(exclude={"id", "passed", "gates"}) | {"gates": gates})
    return None


def _summary(task: FoundTask) -> dict[str, object]:
    return {
        "id": task.bundle.id,
        "name": task.bundle.task.name,
        "instruction": task.bundle.task.instruction,
        "apps": task.bundle.task.apps,
        "skills": task.bundle.task.skills,
        "feasible": task.bundle.task.feasible,
        "origin": task.origin,
    }


def _described(bundle: Bundle) -> list[RenderableType]:
    from rich.markup import escape

    task = bundle.task
    desktop = f"{task.desktop.profile}, {task.desktop.width}x{task.desktop.height}"
    limits = f"{task.limits.max_steps} steps, {task.limits.time_limit_s:.0f} s"
    rows = [
        ("id", f"[dim]{bundle.id}[/dim]"),
        ("asked", escape(task.instruction)),
        ("apps", ", ".join(task.apps)),
        ("skills", ", ".join(task.skills)),
        ("channels", task.channels + ("" if task.feasible else "; cannot be done, and the agent should say so")),
        ("desktop", desktop),
        ("limits", limits),
        ("setup", ", ".join(step.type for step in task.setup) or "none"),
        ("evidence", ", ".join(request.name for request in task.evidence) or "none"),
        ("solution", f"{len(bundle.oracle)} steps, {len(bundle.alternatives)} alternatives"),
        *[
            ("near misses" if number == 0 else "", f"{escape(negative.name)} [dim]({escape(negative.why)})[/dim]")
            for number, negative in enumerate(bundle.negatives)
        ],
    ]
    return [f"[bold]{task.name}[/bold]", facts(rows)]


def _gate_line(gate: str, outcome: str, detail: str) -> str:
    from rich.markup import escape

    return f"{MARKS[GATE_MARKS[outcome]]} {gate} {escape(detail)}"


def _proof_text(proof: Proof | None) -> str:
    if proof is None:
        return "[dim]not verified[/dim]"
    stopped = f" at {proof.stopped_by.gate}" if proof.stopped_by else ""
    color = {"passed": "green", "failed": "red", "unproven": "yellow"}[proof.outcome]
    text = {"passed": "proven", "failed": "rejected", "unproven": "unproven"}[proof.outcome]
    return f"[{color}]{text}{stopped}[/{color}]"
