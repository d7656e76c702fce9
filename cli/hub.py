"""`frontdesk hub`: lend this machine's desktops to other processes and machines."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command, group
from cli.hubs import DEFAULT_PORT, Backend, BackendOption, HubOption, hub_address
from cli.output import MARKS, Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sandbox.hub import HubAddress, HubStats
    from store import Home

__all__ = ["app"]

app = group(
    "Lend this machine's desktops to other processes and machines.\n\n"
    "Commands that run desktops borrow them with [cyan]--hub HOST:PORT[/cyan]."
)


@command(
    app,
    "serve",
    examples={
        "frontdesk hub serve --desktops 8": "for other processes of this machine",
        "frontdesk hub serve --host 0.0.0.0 --token-file hub.token": "for other machines as well",
        "frontdesk eval my-run --hub 127.0.0.1:7411": "a command that borrows from it",
    },
)
def serve(
    desktops: Annotated[int | None, typer.Option(min=1, help="Most at once; 4 per core unless given.")] = None,
    warm: Annotated[int, typer.Option(min=0, help="Kept ready of each kind that was asked for.")] = 0,
    profile: Annotated[list[str] | None, typer.Option(help="Image to see to first; light unless given.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    token_path: Annotated[
        Path | None, typer.Option("--token-file", help="File with what clients must know.", show_default=False)
    ] = None,
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Lend desktops until it is told to stop (Ctrl-C).

    Only this machine reaches it unless --host says otherwise, and nobody uses it without its token. A worker that is
    lost loses its desktop within a minute. What is sent is not encrypted: between machines use a network that you
    trust, or a tunnel.
    """
    from cli.image import require_image
    from sandbox.hub.token import token_for
    from store import Home

    output = Output(json=json)
    home = Home.default().ensure()
    token = token_for(host, token_path, home.run / "hub.token")
    for name in profile or ["light"]:
        require_image(output, home, name, backend)
    capacity = desktops or 4 * len(os.sched_getaffinity(0))
    where = token_path or home.run / "hub.token"
    stats = asyncio.run(_serve(output, home, host, port, token, where, capacity=capacity, warm=warm, backend=backend))
    output.err.print(f"stopped after {stats.boots} boots; orphans removed: {stats.reaped}", highlight=False)


async def _serve(
    output: Output,
    home: Home,
    host: str,
    port: int,
    token: str,
    where: Path,
    *,
    capacity: int,
    warm: int,
    backend: Backend,
) -> HubStats:
    from sandbox.backends.named import make_backend
    from sandbox.hub import Hub, HubServer
    from sandbox.hub.admission import LoadAdmission
    from sandbox.image import ImageCache

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    made = make_backend(backend, ImageCache(home.images), home.run)
    async with (
        Hub(made, capacity=capacity, warm=warm, admission=LoadAdmission()) as hub,
        HubServer(hub, token=token, host=host, port=port) as server,
    ):
        output.result(
            {"address": server.address, "token_file": where, "desktops": capacity},
            f"{MARKS['ok']} lending up to {capacity} desktops at [cyan]{server.address}[/cyan]",
            f"  use it     [cyan]frontdesk eval RUN --hub {server.address}[/cyan]",
            f"  look at it [cyan]frontdesk hub status --hub {server.address}[/cyan]",
            f"  its token  [cyan]{where}[/cyan]",
        )
        await stop.wait()
        return hub.stats()


@command(
    app,
    "status",
    examples={
        "frontdesk hub status": "the hub of this machine",
        "frontdesk hub status --hub desk.example:7411": "another one",
    },
)
def status(hub: HubOption = f"127.0.0.1:{DEFAULT_PORT}", json: Json = False) -> None:
    """Say what a hub lends, how long things take, and what it cleaned up."""
    from store import Home

    output = Output(json=json)
    address = hub_address(Home.default().ensure(), hub)
    stats = asyncio.run(_stats(address))
    output.result(stats, *_parts(stats))


async def _stats(address: HubAddress) -> HubStats:
    from sandbox.hub import RemoteHub

    async with RemoteHub(address) as hub:
        return await hub.stats()


def _parts(stats: HubStats) -> list[RenderableType]:
    desktops = {
        "lent": stats.leased,
        "ready": stats.ready,
        "booting": stats.booting,
        "ending": stats.retiring,
        "free": stats.capacity - stats.leased - stats.ready - stats.booting - stats.retiring,
    }
    rows = [
        ("desktops", ", ".join(f"{number} {name}" for name, number in desktops.items()) + f" of {stats.capacity}"),
        ("workers waiting", str(stats.waiting)),
        ("utilisation", f"{stats.utilisation:.0%}"),
        ("boot", f"{_span(stats.boot_p50_s, stats.boot_p95_s)}  {stats.boots} done, {stats.boot_failures} failed"),
        ("wait for a lease", _span(stats.lease_wait_p50_s, stats.lease_wait_p95_s)),
        ("step", _span(stats.step_p50_s, stats.step_p95_s)),
        ("boots held back", f"{stats.held_back_share:.0%} of the time" + _why(stats.held_back)),
        ("ended", ", ".join(f"{number} {reason}" for reason, number in sorted(stats.retired.items())) or "none"),
        ("orphans removed", str(stats.reaped)),
    ]
    return [table(["What", "Now and so far"], rows)]


def _span(p50: float | None, p95: float | None) -> str:
    return "none yet" if p50 is None or p95 is None else f"{p50:.2f} s median, {p95:.2f} s p95"


def _why(reason: str | None) -> str:
    from rich.markup import escape

    return "" if reason is None else f"; now: {escape(reason)}"
