"""The probe's answers, as the types that the rest of the house knows."""

from __future__ import annotations

import base64
from typing import Any

from sandbox import errors
from sandbox.desktop import A11yNode, Rect, Window
from sandbox.evidence import Evidence
from sandbox.frame import Frame

__all__ = ["read_changes", "read_error", "read_evidence", "read_node", "read_window"]

TYPES = {
    cls.__name__: cls
    for cls in (
        errors.BootFailed,
        errors.DesktopLost,
        errors.LeaseExpired,
        errors.ProbeLost,
        errors.Unavailable,
        errors.DeadlineExceeded,
    )
}


def read_error(error: dict[str, Any]) -> Exception:
    """The exception that an error on the wire stands for."""
    kind, message = error["type"], error["message"]
    if kind == "FileNotFound":
        return FileNotFoundError(message)
    if kind == "FileRefused":
        return errors.FileRefused(message, kind=error["state"]["kind"])
    if kind == "BadRequest":
        return errors.BadRequest(message)
    return TYPES.get(kind, errors.DesktopError)(message, state=error.get("state", {}))


def read_evidence(result: dict[str, Any], body: bytes) -> Evidence:
    """Evidence. `body` has the bytes of its files in order; each item says how many are its own."""
    at = 0
    for item in result["items"].values():
        size = item.pop("body_bytes", None)
        if size is not None:
            item["data"] = {"base64": base64.b64encode(body[at : at + size]).decode()}
            at += size
    return Evidence.model_validate(result)


def read_changes(base: Frame, rows: list[list[int]], body: bytes) -> bytes:
    """Pixels of a frame that differs from another in stretches of rows, each given as [first row, number of rows]."""
    stride, parts, at, taken = base.width * 3, [], 0, 0
    pixels, changed = memoryview(base.pixels), memoryview(body)
    for top, count in rows:
        parts += [pixels[at : top * stride], changed[taken : taken + count * stride]]
        at, taken = (top + count) * stride, taken + count * stride
    return b"".join([*parts, pixels[at:]])


def read_window(data: dict[str, Any]) -> Window:
    """A window."""
    return Window(
        id=data["id"],
        title=data["title"],
        app=data["app"],
        bounds=_rect(data["bounds"]),
        active=data["active"],
        dialog=data["dialog"],
    )


def read_node(data: dict[str, Any]) -> A11yNode:
    """An accessibility node with everything below it."""
    value = data.get("value")
    return A11yNode(
        role=data["role"],
        name=data["name"],
        states=tuple(data["states"]),
        bounds=_rect(data["bounds"]) if data.get("bounds") else None,
        text=data.get("text"),
        value=None if value is None else float(value),
        children=tuple(read_node(child) for child in data["children"]),
    )


def _rect(box: list[int]) -> Rect:
    return Rect(x=box[0], y=box[1], width=box[2], height=box[3])
