"""A service in a process of its own, called over a pipe.

::

    Child.call(name, args) --(number, name, args)--> [ process: one thread reads, the event loop answers ]
                           <--(number, value | exception)--

Guarantees: calls are answered in any order and each exactly once; when the process ends, every call that waits fails
with `ChildDied`, which says how it ended; when the parent ends in whatever way, SIGKILL included, the pipe closes and
the process ends with it, even in the middle of its work. Ctrl-C is the parent's to handle: the process ignores it.

The pipe carries pickles between two processes of one program. Nothing that is pickled is ever stored.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from trainer.errors import ChildDied

__all__ = ["Child"]

ORPHANED = 3
"""Exit code of a process whose parent is gone."""
CLOSE_S = 10.0
"""How long a process may take to end by itself."""
_STARTED = 0
_CLOSE = "close"


class Child:
    """The parent's end.

    Args:
        name: for messages.
        make: makes the service in the process; a function of a module, since it is found there by its name. The
            service's methods, plain or async, are what can be called; `close` ends it.
        args: of `make`.
    """

    def __init__(self, name: str, make: Callable[..., object], *args: Any) -> None:
        self.name = name
        self._make = make
        self._args = args
        self._numbers = itertools.count(_STARTED + 1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._sending = asyncio.Lock()
        self._closing = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the process has ended; raises `ChildDied` where that was not by `close`."""

    @property
    def pid(self) -> int | None:
        """Of the process; None before `start`."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process and wait until its service is there.

        Raises:
            ChildDied: it ended first.
            Exception: whatever making the service raised.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, self._make, self._args), name=f"frontdesk-{self.name}", daemon=True
        )
        started = self._waiting[_STARTED] = asyncio.get_running_loop().create_future()
        await asyncio.to_thread(process.start)
        theirs.close()
        self._process = process
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read, args=(loop, self._connection), name=f"{self.name}-pipe", daemon=True
        ).start()
        try:
            await started
        except BaseException:  # cancelled, perhaps: nobody else would end it
            process.kill()
            raise

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the service.

        Raises:
            ChildDied: the process ended before it answered.
            Exception: whatever the method raised.
        """
        if self.over.done() or self._connection is None:
            raise ChildDied(self._how())
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with self._sending:
                await asyncio.to_thread(self._connection.send, (number, method, args))
        except OSError:
            pass  # the process is gone; the reader fails every call that waits, this one too
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the process. Idempotent."""
        self._closing = True
        process = self._process
        if process is None:
            return
        if not self.over.done():
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self.call(_CLOSE)
            except (ChildDied, TimeoutError):
                pass
        await asyncio.to_thread(process.join, CLOSE_S)
        if process.exitcode is None:
            process.kill()
            await asyncio.to_thread(process.join)
        await asyncio.wait({self.over})

    def _read(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        try:
            while True:
                number, error, value = connection.recv()
                loop.call_soon_threadsafe(self._answered, number, error, value)
        except (EOFError, OSError):
            assert self._process is not None
            self._process.join(CLOSE_S)
        try:
            loop.call_soon_threadsafe(self._ended)
        except RuntimeError:
            pass  # the loop has ended too: nobody waits any more

    def _answered(self, number: int, error: Exception | None, value: Any) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _ended(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ChildDied(self._how()))
        self._waiting.clear()
        if self.over.done():
            return
        if self._closing:
            self.over.set_result(None)
        else:
            self.over.set_exception(ChildDied(self._how()))
            self.over.exception()  # whoever does not wait for it has been told by their own calls

    def _how(self) -> str:
        code = None if self._process is None else self._process.exitcode
        if code is None:
            return f"the {self.name} process is not running"
        if code < 0:
            return f"the {self.name} process (pid {self.pid}) was ended by {signal.Signals(-code).name}"
        return f"the {self.name} process (pid {self.pid}) ended with exit code {code}"


def _serve(connection: Connection, make: Callable[..., object], args: tuple[Any, ...]) -> None:
    """The process: make the service, then answer calls until the pipe or the service closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_answer_calls(connection, make, args))


async def _answer_calls(connection: Connection, make: Callable[..., object], args: tuple[Any, ...]) -> None:
    loop = asyncio.get_running_loop()
    calls: asyncio.Queue[tuple[int, str, tuple[Any, ...]]] = asyncio.Queue()

    def read() -> None:
        while True:
            try:
                call = connection.recv()
            except (EOFError, OSError):
                os._exit(ORPHANED)  # at once, whatever the service is at
            loop.call_soon_threadsafe(calls.put_nowait, call)

    threading.Thread(target=read, name="pipe", daemon=True).start()
    try:
        service = make(*args)
    except Exception as error:  # noqa: BLE001 - the parent gets it
        connection.send((_STARTED, _portable(error), None))
        return
    connection.send((_STARTED, None, None))

    async def answer(number: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            value = getattr(service, method)(*arguments)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:  # noqa: BLE001 - the parent gets it
            connection.send((number, _portable(error), None))
        else:
            connection.send((number, None, value))

    async with asyncio.TaskGroup() as group:
        while True:
            number, method, arguments = await calls.get()
            if method == _CLOSE:
                await answer(number, method, arguments)
                return
            group.create_task(answer(number, method, arguments))


def _portable(error: Exception) -> Exception:
    """The error as it can be sent, with where it came from."""
    where = "".join(traceback.format_exception(error))
    error.__cause__ = error.__context__ = None
    error.__traceback__ = None
    error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - exceptions may refuse either in any way
        return RuntimeError(f"{type(error).__name__}: {error}\n{where}")
    return error
