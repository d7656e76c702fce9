"""What those who use desktops need of a hub, whether it is in their process or behind a socket.

`Hub` and `RemoteHub` are both a `Lender`; code that runs episodes takes one and does not care which.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sandbox.desktop import Desktop, DesktopSpec

__all__ = ["Lender", "Loan"]


class Loan(Protocol):
    """The right to one desktop for a while."""

    @property
    def id(self) -> str:
        """Names the lease; the desktop's id, because a desktop is lent once."""
        ...

    @property
    def epoch(self) -> int:
        """Higher than any epoch the hub gave before."""
        ...

    @property
    def desktop(self) -> Desktop:
        """Refuses every call once the lease is over."""
        ...

    @property
    def over(self) -> str | None:
        """Why the right is over; None while it lasts."""
        ...

    @property
    def expires_in_s(self) -> float:
        """Seconds until it ends unless renewed; 0 once over."""
        ...


class Lender(Protocol):
    """Lends desktops."""

    def lease(
        self,
        spec: DesktopSpec | None = None,
        *,
        ttl_s: float | None = None,
        priority: int = 0,
        deadline_s: float = 120.0,
    ) -> AbstractAsyncContextManager[Loan]:
        """Hold a fresh desktop for the length of a block; see `Hub.acquire` for arguments and errors."""
        ...
