"""Waiting on descriptors of any number: `select` refuses those above 1023, which a probe with many children reaches."""

from __future__ import annotations

import select
from collections.abc import Iterable

__all__ = ["ready"]


def ready(readers: Iterable[int], timeout_s: float, *, writers: Iterable[int] = ()) -> set[int]:
    """The descriptors that can be used without waiting, or whose peer hung up, at most `timeout_s` later."""
    poll = select.poll()
    for fd in readers:
        poll.register(fd, select.POLLIN)
    for fd in writers:
        poll.register(fd, select.POLLOUT)
    return {fd for fd, _ in poll.poll(max(0.0, timeout_s) * 1000)}
