"""An event loop whose clock jumps: waiting takes no time, and a test that uses timeouts is exact and repeatable.

Only for code that waits by asyncio alone (no threads, sockets or processes). When nothing is scheduled any more and the
test has not ended, it is a deadlock, and the loop says so.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

__all__ = ["run_virtual"]

T = TypeVar("T")


class _Selector(selectors.BaseSelector):
    """Moves the clock where a real selector would sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: every task waits and nothing is scheduled")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on such a loop; its time starts at 0 s.

    Raises:
        AssertionError: an error reached nobody but the loop (a task's exception that was never looked at, say).
    """
    unheard: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: unheard.append(context))
        result = runner.run(main)
    gc.collect(1)  # asyncio tells of an exception that nobody looked at when its task is collected
    assert not unheard, unheard
    return result
