"""`frontdesk synth`: makes tasks from the skill packs, proves them, and keeps those that the gates admit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption, lender
from cli.output import MARKS, Output, table
from cli.workspace import Workspace, named_split, open_workspace

if TYPE_CHECKING:
    from cli.progress import Progress
    from verigen.ledger import Entry, Ledger
    from verigen.packs import SkillPack, Split
    from verigen.proof import Proof

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "synth",
        panel="Tasks and episodes",
        examples={
            "frontdesk synth --count 30": "thirty new training tasks",
            "frontdesk synth --count 10 --packs mousepad,thunar --split held-out": "of two packs, for evaluation",
            "frontdesk synth --ship": "the set that comes with Frontdesk, as far as it is missing",
        },
    )(synth)


def synth(
    count: Annotated[int, typer.Option(min=1, help="Tasks to admit.")] = 30,
    seed: Annotated[int, typer.Option(help="Another seed gives other tasks.")] = 0,
    packs: Annotated[str, typer.Option(help="Skill packs, separated by commas; all if none is named.")] = "",
    split: Annotated[str, typer.Option(help="train, validation or held-out.")] = "train",
    desktops: Annotated[int, typer.Option(min=1, help="Desktops used at once.")] = 2,
    backend: BackendOption = "local",
    ship: Annotated[bool, typer.Option("--ship", help="Make what the shipped set lacks instead.")] = False,
    json: Json = False,
) -> None:
    """Make tasks without a model and keep those that the gates admit.

    Skill packs draw a start state, an instruction, checks, solutions and near misses; a task is admitted when it passes
    every gate. Interrupt it when you like: the same command goes on where it was, and proposes nothing twice. Exit code
    1 if fewer tasks than asked for were admitted.
    """
    from cli.image import require_image
    from verigen.packs import load_packs
    from verigen.synth import yields

    output = Output(json=json)
    chosen = load_packs([name.strip() for name in packs.split(",") if name.strip()])
    wanted = named_split(split)
    with open_workspace() as work:
        digest = require_image(output, work.home, "light", backend).digest
        with _ledger(work, chosen, "ship" if ship else f"{seed} {split}") as ledger:
            if ship:
                num_wanted = asyncio.run(
                    _ship(output, work, chosen, ledger, digest, num_desktops=desktops, backend=backend)
                )
            else:
                num_wanted = count
                asyncio.run(
                    _synth(
                        output,
                        work,
                        chosen,
                        ledger,
                        digest,
                        seed=seed,
                        split=wanted,
                        count=count,
                        num_desktops=desktops,
                        backend=backend,
                    )
                )
            gates = yields(ledger)
            settled = [entry for entry in ledger.entries.values() if entry.outcome != "open"]
    admitted = [entry for entry in settled if entry.outcome == "admitted"]
    rows = [
        (one.gate, str(one.reached), str(one.passed), str(one.rejected), str(one.unproven) if one.unproven else "")
        for one in gates
    ]
    short = len(admitted) < num_wanted
    output.result(
        {
            "admitted": [
                {
                    "id": entry.bundle.id,
                    "name": entry.bundle.task.name,
                    "template": entry.template,
                    "split": entry.split,
                }
                for entry in admitted
            ],
            "rejected": [
                {"name": entry.bundle.task.name, "template": entry.template, "gate": entry.gate, "reason": entry.reason}
                for entry in settled
                if entry.outcome == "rejected"
            ],
            "gates": gates,
        },
        table(["Gate", "Reached", "Passed", "Rejected", "No result"], rows),
        f"{MARKS['bad' if short else 'ok']} {len(admitted)} of {len(settled)} proposals admitted",
    )
    if short:
        raise typer.Exit(FAILED)


def _ledger(work: Workspace, packs: list[SkillPack], what: str) -> Ledger:
    """The ledger of this very synthesis: other packs, seeds and splits have their own."""
    from verigen.canonical import content_hash
    from verigen.ledger import Ledger

    name = content_hash([what, [(pack.name, pack.version) for pack in packs]])[:16]
    return Ledger(work.home.runs / "synth" / f"{name}.jsonl")


async def _synth(
    output: Output,
    work: Workspace,
    packs: list[SkillPack],
    ledger: Ledger,
    digest: str,
    *,
    seed: int,
    split: Split,
    count: int,
    num_desktops: int,
    backend: Backend,
) -> None:
    from verigen.bundle import parse_bundle
    from verigen.packs import content_key
    from verigen.sets import read_sets
    from verigen.synth import CAP, Gates, synthesise

    known = {content_key(task.bundle) for task in read_sets()}
    known |= {content_key(parse_bundle(row.document)) for row in work.catalog.bundles()}
    async with lender(work.home, desktops=num_desktops, backend=backend) as hub:
        with output.progress("Making tasks", total=count) as progress:
            await synthesise(
                packs,
                [split],
                Gates(hub=hub, image_digest=digest, catalog=work.catalog, limit=num_desktops),
                ledger,
                seed=seed,
                known=known,
                wanted=lambda template, split: CAP,
                count=count,
                workers=num_desktops,
                on_settled=lambda entry, proof: _tell(progress, entry, proof),
            )


async def _ship(
    output: Output,
    work: Workspace,
    packs: list[SkillPack],
    ledger: Ledger,
    digest: str,
    *,
    num_desktops: int,
    backend: Backend,
) -> int:
    """Make what the shipped set lacks, and say how many proposals of this ledger that takes."""
    from verigen.sets import read_sets
    from verigen.ship import quotas, ship
    from verigen.synth import Gates

    mine = {entry.bundle.id for entry in ledger.entries.values()}
    missing = sum(quotas(packs).values()) - sum(task.bundle.id not in mine for task in read_sets())
    async with lender(work.home, desktops=num_desktops, backend=backend) as hub:
        with output.progress("Making the shipped set", total=missing) as progress:
            await ship(
                packs,
                Gates(hub=hub, image_digest=digest, catalog=work.catalog, limit=num_desktops),
                ledger,
                work.catalog,
                image_digest=digest,
                workers=num_desktops,
                on_settled=lambda entry, proof: _tell(progress, entry, proof),
            )
    return missing


def _tell(progress: Progress, entry: Entry, proof: Proof | None) -> None:
    """One line for what became of a proposal."""
    from rich.markup import escape

    name = f"[bold]{entry.bundle.task.name}[/bold]"
    took = f" [dim]{proof.seconds:.0f} s[/dim]" if proof is not None else ""
    match entry.outcome:
        case "admitted":
            progress.finished(f"{MARKS['ok']} {name}{took}")
        case "rejected":
            progress.line(f"{MARKS['bad']} {name} rejected by {entry.gate}: {escape(entry.reason)}")
        case "open":
            progress.line(f"{MARKS['warn']} {name} is unproven: the machinery failed; run the command again to go on")
