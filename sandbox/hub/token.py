"""The token of a hub: who has it may use the hub's desktops."""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path

from sandbox.errors import BadRequest
from sandbox.hub.server import MIN_TOKEN

__all__ = ["own_token", "read_token", "token_for"]


def token_for(host: str, token_file: Path | None, own_file: Path) -> str:
    """The token of a hub that listens on `host`.

    Args:
        token_file: the file that its owner named.
        own_file: where a hub that only this machine reaches keeps a token of its own.

    Raises:
        BadRequest: others could reach it and no file was named, or the file will not do.
    """
    if token_file is not None:
        return read_token(token_file)
    if not _is_loopback(host):
        raise BadRequest(
            f"other machines can reach {host}, so the hub needs a token that you gave it: name its file with "
            "--token-file. To make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE)"
        )
    return own_token(own_file)


def own_token(path: Path) -> str:
    """The token in this file, which is made if there is none."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(path)
    with os.fdopen(file, "w") as out:
        out.write(secrets.token_urlsafe(32) + "\n")
    return read_token(path)


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        BadRequest: there is none, it is too short, or others than its owner may read the file.
    """
    try:
        token, mode = path.read_text().strip(), path.stat().st_mode
    except OSError as error:
        raise BadRequest(f"the hub's token cannot be read from {path}: {error.strerror}") from error
    if mode & 0o077:
        raise BadRequest(f"others may read the hub's token in {path}; to fix it: chmod 600 {path}")
    if len(token) < MIN_TOKEN:
        raise BadRequest(f"the hub's token in {path} must have at least {MIN_TOKEN} characters")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may stand for any address
        return False
