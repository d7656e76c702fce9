"""What passes through a probe's connection without being kept: files either way, and forwarded connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandbox.probe.commands import CommandFailed
from sandbox.probe.files import FileRefused, Files
from sandbox.probe.forward import Forwards, NoConnection
from sandbox.probe.requests import Body, Refused, command_refusal
from sandbox.probe.wire import PIECE, STREAMED, encode

__all__ = ["Streams"]

TYPES = {"missing": "FileNotFound", "error": "Unavailable", "late": "DeadlineExceeded", "malformed": "BadRequest"}


class Streams:
    """The operations whose bytes are streamed.

    Args:
        files: of the desktop.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._forwards = Forwards()

    def read_file(self, request_id: str, args: dict[str, Any], deadline: float) -> Iterator[bytes]:
        """A file, as the pieces of an answer; the last of them says whether it came whole.

        Raises:
            Refused: it cannot be read.
        """
        try:
            with self._files.read(
                args["path"], user=args["user"], max_bytes=args["max_bytes"], inside="", deadline=deadline
            ) as transfer:
                yield encode({"id": request_id, "result": {"size": transfer.size}}, STREAMED)
                outcome: dict[str, Any] = {"result": {}}
                try:
                    for data in transfer.chunks(deadline):
                        yield PIECE.pack(len(data))
                        yield data
                except FileRefused as problem:
                    outcome = _refusal(problem).answer()
                yield PIECE.pack(0) + encode({"id": request_id, **outcome}, clean=True)
        except FileRefused as problem:
            raise _refusal(problem) from problem
        except CommandFailed as problem:
            raise command_refusal(problem) from problem

    def write_file(self, args: dict[str, Any], body: Body, deadline: float) -> dict[str, Any]:
        """Store the body as a file.

        Raises:
            Refused: it cannot be written; some of the body may be left.
        """
        size = body.left
        try:
            self._files.write(args["path"], body.take, size, user=args["user"], mode=args["mode"], deadline=deadline)
        except FileRefused as problem:
            raise _refusal(problem) from problem
        except CommandFailed as problem:
            raise command_refusal(problem) from problem
        return {"result": {"size": size}}

    def forward(self, request_id: str, args: dict[str, Any], body: Body, deadline: float) -> None:
        """Answer, and make the connection one to a port of the desktop.

        Raises:
            Refused: the port cannot be reached.
        """
        body.drop()
        try:
            inside = self._forwards.connect(args["port"], deadline)
        except NoConnection as problem:
            raise Refused(problem.kind, str(problem)) from problem
        self._forwards.adopt(body.take_over(), inside, encode({"id": request_id, "result": {}}, clean=True))

    def drop_forwards(self) -> None:
        """Close the forwarded connections made so far."""
        self._forwards.drop()


def _refusal(problem: FileRefused) -> Refused:
    if problem.kind in TYPES:
        return Refused(TYPES[problem.kind], str(problem))
    return Refused("FileRefused", str(problem), {"kind": problem.kind})
