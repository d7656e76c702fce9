"""Record desktops, and play them back with no screen, no root and no time passing.

::

    recording:  RecordingDesktop(desktop, tape) --call--> desktop, and its answer --> tape
    playing:    RecordedBackend(tape).boot(spec) --call--> the answer recorded for this request in this state

Playing is a function of the tape and of the requests: the same requests give the same answers, frames, process ids,
clocks and failures (same type, same phase) in every run, and recorded durations are data, never slept. A request that
was not recorded in this state raises `RecordingMiss`, which names the requests that were.

`health` is asked by whoever looks after a desktop, at moments that differ from run to run; so it leaves the state as it
is, and where it was not recorded the answer is that the desktop is alive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from sandbox.actions import Action
from sandbox.backends import tape_calls as calls
from sandbox.backends.tape import Entry, Root, Tape, root_key, state_key
from sandbox.desktop import Desktop, DesktopSpec, ExecResult, Health, Observation, Settle, StepResult, User, Want
from sandbox.errors import DesktopLost, RecordingMiss
from sandbox.evidence import Evidence, EvidenceRequest
from sandbox.forward import Forward

__all__ = ["RecordedBackend", "RecordedDesktop", "RecordingDesktop"]

SHOWN = 8
SHOWN_LENGTH = 200

T = TypeVar("T")
log = logging.getLogger(__name__)


class _TapedDesktop(ABC):
    """Every call of a desktop as one `_take`."""

    def __init__(self, desktop_id: str, root: Root) -> None:
        self._id = desktop_id
        self._root = root

    @property
    def id(self) -> str:
        return self._id

    @property
    def spec(self) -> DesktopSpec:
        return self._root.spec

    @property
    def image_digest(self) -> str:
        return self._root.image_digest

    @abstractmethod
    async def _take(
        self, call: calls.Call[T], live: Callable[[Desktop], Awaitable[T]], request_id: str | None = None
    ) -> T:
        """Answer one call; `live` makes it on a live desktop."""

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        return await self._take(
            calls.step(actions, settle, want),
            lambda desktop: desktop.step(
                actions, settle=settle, want=want, request_id=request_id, deadline_s=deadline_s
            ),
            request_id,
        )

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        return await self._take(calls.observe(want), lambda desktop: desktop.observe(want, deadline_s=deadline_s))

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        return await self._take(
            calls.collect(requests), lambda desktop: desktop.collect(requests, deadline_s=deadline_s)
        )

    async def health(self) -> Health:
        return await self._take(calls.health(), lambda desktop: desktop.health())

    async def exec(
        self,
        argv: Sequence[str],
        *,
        user: User = "user",
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        deadline_s: float = 30.0,
        max_output: int = 1 << 20,
    ) -> ExecResult:
        return await self._take(
            calls.execute(argv, user=user, cwd=cwd, env=env, stdin=stdin, max_output=max_output),
            lambda desktop: desktop.exec(
                argv, user=user, cwd=cwd, env=env, stdin=stdin, deadline_s=deadline_s, max_output=max_output
            ),
        )

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        return await self._take(
            calls.spawn(argv, user=user, cwd=cwd, env=env),
            lambda desktop: desktop.spawn(argv, user=user, cwd=cwd, env=env),
        )

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        await self._take(
            calls.put_file(path, data, user=user, mode=mode),
            lambda desktop: desktop.put_file(path, data, user=user, mode=mode, deadline_s=deadline_s),
        )

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        return await self._take(
            calls.get_file(path, max_bytes=max_bytes),
            lambda desktop: desktop.get_file(path, max_bytes=max_bytes, deadline_s=deadline_s),
        )

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        return await self._take(
            calls.upload(source, path, user=user, mode=mode),
            lambda desktop: desktop.upload(source, path, user=user, mode=mode, deadline_s=deadline_s),
        )

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        return await self._take(
            calls.download(path, target, max_bytes=max_bytes),
            lambda desktop: desktop.download(path, target, max_bytes=max_bytes, deadline_s=deadline_s),
        )


class RecordingDesktop(_TapedDesktop):
    """A live desktop whose calls are recorded. It must be fresh: the tape's root is the state after its boot.

    The recording ends, and the desktop goes on unrecorded, when a call's answer is nobody's to know: it was cancelled,
    its lease ended, a port was forwarded, or the desktop raised what is no answer.

    Args:
        desktop: any desktop; a lease's guarded one too.
        tape: from `Tape.record`. Many desktops may record into it, side by side or one after another.
        clock: seconds since the epoch.
    """

    def __init__(self, desktop: Desktop, tape: Tape, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(desktop.id, tape.add_root(desktop.spec, desktop.image_digest, clock()))
        self.diverged = 0
        """Answers that differ, beyond times, from what the tape already held for the same key."""
        self._desktop = desktop
        self._tape = tape
        self._clock = clock
        self._state: str | None = self._root.key
        self._answered: set[str] = set()
        self._lock = asyncio.Lock()

    async def _take(
        self, call: calls.Call[T], live: Callable[[Desktop], Awaitable[T]], request_id: str | None = None
    ) -> T:
        async with self._lock:
            before = self._state
            if before is None or request_id in self._answered:
                return await live(self._desktop)
            self._state = None  # until the answer is known
            began = self._clock()
            try:
                answer = await live(self._desktop)
            except Exception as error:
                failure = calls.encode_error(error)
                if failure is not None:
                    self._record(before, call, began, answer=None, error=failure)
                raise
            self._record(before, call, began, answer=call.encode(answer, self._tape.add_blob), error=None)
            if request_id is not None:
                self._answered.add(request_id)
            return answer

    @asynccontextmanager
    async def forward(self, port: int) -> AsyncIterator[Forward]:
        """Ends the recording: what comes through a forward, and what it does, is on no tape."""
        async with self._lock:
            self._state = None
        async with self._desktop.forward(port) as forward:
            yield forward

    async def close(self) -> None:
        """Destroy the desktop; the tape stays open."""
        await self._desktop.close()

    def _record(
        self, before: str, call: calls.Call[Any], began: float, *, answer: Any, error: dict[str, Any] | None
    ) -> None:
        entry = Entry(
            key=state_key(before, call.request),
            parent=before,
            request=call.request,
            answer=answer,
            error=error,
            seconds=max(0.0, self._clock() - began),
        )
        kept = self._tape.add(entry)
        if (_lasting(kept.answer), kept.error) != (_lasting(answer), error):
            self.diverged += 1
            log.warning("%s answered %s otherwise than the tape has it", self.id, _shown(call.request))
        self._state = entry.key if call.moves else before


class RecordedDesktop(_TapedDesktop):
    """A desktop that is played back. Made by `RecordedBackend.boot`."""

    def __init__(self, desktop_id: str, root: Root, tape: Tape) -> None:
        super().__init__(desktop_id, root)
        self._tape = tape
        self._state = root.key
        self._elapsed_s = 0.0
        self._answered: dict[str, Entry] = {}
        self._closed = False

    def now(self) -> float:
        """The recorded time: seconds since the epoch at the recording's start, plus what the calls so far took."""
        return self._root.started + self._elapsed_s

    async def health(self) -> Health:
        if self._closed:
            return Health(alive=False, detail={"recorded": "closed"})
        if state_key(self._state, calls.health().request) not in self._tape.entries:
            return Health(alive=True, detail={"recorded": "its health was not recorded in this state"})
        return await super().health()

    def forward(self, port: int) -> AbstractAsyncContextManager[Forward]:
        """Refused: there is no program in a recording that could be spoken to."""
        raise RecordingMiss(f"{self._tape.name} is a recording: nothing listens on its port {port}; use a live desktop")

    async def close(self) -> None:
        """End it. Idempotent."""
        self._closed = True

    async def _take(
        self, call: calls.Call[T], live: Callable[[Desktop], Awaitable[T]], request_id: str | None = None
    ) -> T:
        if self._closed:
            raise DesktopLost(f"{self.id} is closed")
        entry = self._answered.get(request_id) if request_id is not None else None
        if entry is None:
            entry = self._advance(call)
        await asyncio.sleep(0)  # a desktop that never let others run would starve them
        if entry.error is not None:
            raise calls.decode_error(entry.error)
        if request_id is not None:
            self._answered[request_id] = entry
        try:
            return call.decode(entry.answer, self._tape.blob)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingMiss(f"{self._tape.name} has a damaged answer to {_shown(call.request)}") from error

    def _advance(self, call: calls.Call[Any]) -> Entry:
        entry = self._tape.entries.get(state_key(self._state, call.request))
        if entry is None:
            known = [_shown(request) for request in self._tape.known(self._state)]
            more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
            raise RecordingMiss(
                f"{self._tape.name} has no answer to {_shown(call.request)} in this state. "
                f"Recorded here: {'; '.join(known[:SHOWN]) or 'nothing'}{more}. Record this branch as well",
                state={"key": self._state},
            )
        self._elapsed_s += entry.seconds
        if call.moves:
            self._state = entry.key
        return entry


class RecordedBackend:
    """Makes desktops that play a tape back. Their ids number the boots of each spec, so they repeat as well.

    Args:
        tape: an open tape, or the path of a directory or zip to open.
    """

    name = "recorded"

    def __init__(self, tape: Tape | str | Path) -> None:
        self._owned = not isinstance(tape, Tape)
        self._tape = tape if isinstance(tape, Tape) else Tape.open(tape)
        self._boots = Counter[str]()
        self._open: list[RecordedDesktop] = []

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> RecordedDesktop:
        """A desktop in the state after its boot.

        Raises:
            RecordingMiss: no desktop of this spec was recorded.
        """
        root = self._tape.roots.get(root_key(spec))
        if root is None:
            known = "; ".join(str(other.spec) for other in self._tape.roots.values()) or "none"
            raise RecordingMiss(f"{self._tape.name} has no desktop of spec ({spec}). Recorded: {known}")
        self._boots[root.key] += 1
        desktop = RecordedDesktop(f"recorded-{root.key[:8]}-{self._boots[root.key]}", root, self._tape)
        self._open.append(desktop)
        return desktop

    async def reap(self) -> list[str]:
        """Nothing is ever left behind."""
        return []

    async def close(self) -> None:
        """End every desktop, and close the tape if it was given as a path. Idempotent."""
        for desktop in self._open:
            await desktop.close()
        self._open.clear()
        if self._owned:
            self._tape.close()


def _lasting(answer: Any) -> Any:
    """An answer without its times, which differ in every run."""
    if isinstance(answer, dict):
        return {name: _lasting(value) for name, value in answer.items() if name not in _TIMES}
    if isinstance(answer, list):
        return [_lasting(value) for value in answer]
    return answer


_TIMES = frozenset({"clock_s", "elapsed_ms", "seconds", "waited_ms"})


def _shown(request: dict[str, Any]) -> str:
    details = ", ".join(f"{name}={value!r}" for name, value in request.items() if name != "call")
    text = f"{request['call']}({details})"
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "..."
