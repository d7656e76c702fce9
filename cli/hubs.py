"""Where a command's desktops come from: a hub of its own, or one that `frontdesk hub serve` runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from sandbox.hub import HubAddress, Lender
    from store import Home

__all__ = [
    "DEFAULT_PORT",
    "TOKEN_VARIABLE",
    "Backend",
    "BackendOption",
    "HubOption",
    "hub_address",
    "lender",
    "token_file",
]

DEFAULT_PORT = 7411
TOKEN_VARIABLE = "FRONTDESK_HUB_TOKEN_FILE"

HubOption = Annotated[
    str,
    typer.Option(
        "--hub",
        envvar="FRONTDESK_HUB",
        metavar="HOST:PORT",
        help="Borrow desktops from this hub (see frontdesk hub serve).",
        show_default=False,
    ),
]

Backend = Literal["local", "docker"]
"""As `sandbox.backends.named.BackendName`, which help must not load; types hold the two together."""

BackendOption = Annotated[
    Backend,
    typer.Option(
        "--backend",
        envvar="FRONTDESK_BACKEND",
        help="Who runs the desktops of this machine: Frontdesk itself, or the Docker daemon.",
    ),
]


def token_file(home: Home) -> Path:
    """Where the token of a hub lies for its users: the file that is named in the environment, or the hub's own."""
    return Path(os.environ.get(TOKEN_VARIABLE) or home.run / "hub.token")


def hub_address(home: Home, text: str) -> HubAddress:
    """The hub that a person means.

    Raises:
        BadRequest: that is no address, or its token cannot be read.
    """
    from sandbox.errors import BadRequest
    from sandbox.hub import HubAddress
    from sandbox.hub.token import read_token

    try:
        token = read_token(token_file(home))
    except BadRequest as error:
        raise BadRequest(
            f"{error}. The token of a hub elsewhere: copy its file and name it in {TOKEN_VARIABLE}"
        ) from error
    return HubAddress.parse(text, token)


@asynccontextmanager
async def lender(home: Home, hub: str = "", *, desktops: int, backend: Backend = "local") -> AsyncIterator[Lender]:
    """A hub for the length of a block.

    Args:
        hub: address of one that runs; empty runs desktops here.
        desktops: most at once here.
        backend: who runs them here.
    """
    from sandbox.backends.named import make_backend
    from sandbox.hub import Hub, RemoteHub
    from sandbox.hub.admission import LoadAdmission
    from sandbox.image import ImageCache

    if hub:
        async with RemoteHub(hub_address(home, hub)) as remote:
            yield remote
    else:
        made = make_backend(backend, ImageCache(home.images), home.run)
        async with Hub(made, capacity=desktops, admission=LoadAdmission()) as local:
            yield local
