"""`frontdesk doctor`: what this machine can run, what is missing, and the exact fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.output import MARKS, Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sandbox.doctor import Finding

__all__ = ["register", "show_findings"]


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        "doctor",
        panel="Start here",
        examples={
            "frontdesk doctor": "look at everything",
            "frontdesk doctor --json | jq '.findings[] | select(.status != \"ok\")'": "only what is not well",
        },
    )
    def doctor(json: Json = False) -> None:
        """Say what this machine can run, what is missing, and the exact fix.

        Works as any user and changes nothing. Exit code 1 when something that desktops need is missing.
        """
        from sandbox.doctor import examine, usable
        from store import Home

        output = Output(json=json)
        findings = examine(Home.default().path)
        show_findings(output, findings)
        if not usable(findings):
            raise typer.Exit(FAILED)


def show_findings(output: Output, findings: list[Finding]) -> None:
    """Print what was found, as the command's result."""
    from sandbox.doctor import usable

    ready = usable(findings)
    output.result({"ready": ready, "findings": findings}, *_parts(findings, ready=ready))


def _parts(findings: list[Finding], *, ready: bool) -> list[RenderableType]:
    from rich.markup import escape

    rows = [(_mark(finding), finding.name, escape(finding.detail)) for finding in findings]
    fixes = [(finding.name, finding.fix) for finding in findings if finding.fix and finding.status != "ok"]
    parts: list[RenderableType] = [table(["", "What", "Found"], rows)]
    if fixes:
        parts.append(table(["What", "To fix it"], [(name, f"[cyan]{escape(fix)}[/cyan]") for name, fix in fixes]))
    parts.append(
        "[green]Desktops can run here.[/green]"
        if ready
        else "[red]Desktops cannot run here yet:[/red] mend the lines marked ✗ and run this again."
    )
    return parts


def _mark(finding: Finding) -> str:
    if finding.status == "missing" and not finding.required:
        return MARKS["none"]
    return MARKS[{"ok": "ok", "warn": "warn", "missing": "bad"}[finding.status]]  # type: ignore[index]
