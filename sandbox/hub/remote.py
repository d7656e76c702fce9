"""A hub in another process or on another machine, used as if it were in this one.

::

    async with RemoteHub(HubAddress.parse("127.0.0.1:7411", token)) as hub, hub.lease(spec) as lease:
        await lease.desktop.step(actions)

    acquire -> lease of `alive_s`, renewed in the background while this process lives -> release, or its `ttl_s` is over
                  `-- this process dies: nobody renews, the hub ends the lease and destroys the desktop

Guarantees, and who enforces them: a broken connection costs nothing within `alive_s`, because requests are sent again
and the hub makes none twice (`link`, `replies`); calls with an effect leave this process one at a time and in order, so
that the hub can tell a late one (`remote_desktop`); a lease whose call is of unknown fate is over, as in one process.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType

from sandbox.desktop import Desktop, DesktopSpec
from sandbox.errors import BadRequest, DesktopError, HubLost, LeaseExpired, SandboxError
from sandbox.hub.link import HubAddress, Link
from sandbox.hub.messages import Message
from sandbox.hub.metrics import HubStats
from sandbox.hub.remote_desktop import Frames, RemoteDesktop, Right

__all__ = ["RemoteHub", "RemoteLease"]

DEFAULT_TTL_S = 900.0
ASK_S = 10.0
FIRST_CONTACT_S = 5.0
BEATS = 3
"""Renewals within one `alive_s`."""

log = logging.getLogger(__name__)


class RemoteLease:
    """The right to one desktop of a hub elsewhere; see `sandbox.hub.protocol.Loan`."""

    def __init__(self, right: Right, desktop: Desktop, ttl_s: float) -> None:
        self._right = right
        self.desktop = desktop
        """Refuses every call once the lease is over."""
        self.ends_at = right.now() + ttl_s
        """Loop time at which it ends unless it is renewed; while this process lives, the hub is kept from ending it."""
        self.beats: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """Names the lease; the desktop's id."""
        return self._right.lease_id

    @property
    def epoch(self) -> int:
        """Higher than any epoch the hub gave before."""
        return self._right.epoch

    @property
    def right(self) -> Right:
        """What the hub granted."""
        return self._right

    @property
    def over(self) -> str | None:
        """Why the right is over, as far as this process knows; None while it lasts."""
        return self._right.over

    @property
    def expires_in_s(self) -> float:
        """Seconds until it ends unless renewed; 0 once over."""
        return 0.0 if self.over is not None else max(0.0, self.ends_at - self._right.now())


class RemoteHub:
    """Borrows desktops from a hub that `frontdesk hub serve` runs.

    Args:
        alive_s: the hub takes a lease back when it has not heard from this process for so long.
        link: how to talk to it; None makes connections to `address`.
    """

    def __init__(self, address: HubAddress, *, alive_s: float = 60.0, link: Link | None = None) -> None:
        self.address = address
        self._alive_s = alive_s
        self._link = link or Link(address, patience_s=alive_s)
        self._frames = Frames()
        self._leases: set[RemoteLease] = set()
        self._open = False

    async def __aenter__(self) -> RemoteHub:
        try:
            connection = await self._link.connect()
        except (OSError, EOFError) as error:
            raise HubLost(
                f"no hub answers at {self.address} ({error or type(error).__name__}). "
                "Start one there with `frontdesk hub serve`",
                state={"hub": str(self.address)},
            ) from error
        connection[1].transport.abort()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        for lease in list(self._leases):
            await self.release(lease)
        self._link.close()

    @asynccontextmanager
    async def lease(
        self,
        spec: DesktopSpec | None = None,
        *,
        ttl_s: float | None = None,
        priority: int = 0,
        deadline_s: float = 120.0,
    ) -> AsyncIterator[RemoteLease]:
        """Hold a desktop for the length of a block; arguments and errors as for `acquire`."""
        lease = await self.acquire(spec, ttl_s=ttl_s, priority=priority, deadline_s=deadline_s)
        try:
            yield lease
        finally:
            await self.release(lease)

    async def acquire(
        self,
        spec: DesktopSpec | None = None,
        *,
        ttl_s: float | None = None,
        priority: int = 0,
        deadline_s: float = 120.0,
    ) -> RemoteLease:
        """Wait for a fresh desktop and hold it until `release`, until `ttl_s` is over, or until this process is lost.

        Raises:
            HubLost: no hub answers.
            SandboxError: as for `Hub.acquire`.
        """
        if not self._open:
            raise BadRequest("the hub is not open; use `async with RemoteHub(...) as hub`")
        ttl_s = DEFAULT_TTL_S if ttl_s is None else ttl_s
        if ttl_s <= 0:
            raise BadRequest(f"a lease lasts longer than 0 s, not {ttl_s} s")
        message = {
            "op": "acquire",
            "id": uuid.uuid4().hex,
            "spec": None if spec is None else spec.model_dump(mode="json"),
            "ttl_s": min(ttl_s, self._alive_s),
            "priority": priority,
            "deadline_s": deadline_s,
        }
        granted, _ = await self._link.ask(message, deadline_s=deadline_s)
        right = Right(lease_id=granted["lease"], epoch=granted["epoch"])
        desktop = RemoteDesktop(
            right,
            DesktopSpec.model_validate(granted["spec"]),
            granted["image_digest"],
            self._link,
            self._frames,
        )
        lease = RemoteLease(right, desktop, ttl_s)
        self._leases.add(lease)
        lease.beats = asyncio.create_task(self._beat(lease), name=f"renewals of {lease.id}")
        return lease

    async def release(self, lease: RemoteLease) -> None:
        """Give a desktop back to be destroyed. Idempotent; if the hub cannot be told, the lease ends by its time."""
        self._leases.discard(lease)
        if lease.beats is not None:
            lease.beats.cancel()
        told = lease.right.told_over
        lease.right.end("released")
        if told:
            return
        lease.right.told_over = True
        with suppress(SandboxError):
            await self._link.ask(self._about(lease, "release"), deadline_s=ASK_S)

    async def renew(self, lease: RemoteLease, *, ttl_s: float | None = None) -> RemoteLease:
        """Let a lease last `ttl_s` from now, but never longer than the hub's `max_age_s` in all.

        Raises:
            LeaseExpired: it is over already.
        """
        lease.right.check()
        await self._extend(lease)
        lease.ends_at = lease.right.now() + (DEFAULT_TTL_S if ttl_s is None else ttl_s)
        return lease

    async def stats(self) -> HubStats:
        """What the hub is and has done."""
        data, _ = await self._link.ask({"op": "stats"}, deadline_s=ASK_S)
        return HubStats(**data)

    async def _extend(self, lease: RemoteLease, ttl_s: float | None = None) -> None:
        message = self._about(lease, "renew") | {"ttl_s": self._alive_s if ttl_s is None else ttl_s, "fence": False}
        await self._link.ask(message, deadline_s=self._alive_s)

    async def _beat(self, lease: RemoteLease) -> None:
        """Renew a lease while it lasts; in its last `alive_s` the hub ends it by itself."""
        while lease.over is None:
            await asyncio.sleep(self._alive_s / BEATS)
            left_s = lease.ends_at - lease.right.now()
            if left_s <= 0:
                lease.right.end("expired")
                return
            try:
                await self._extend(lease, min(self._alive_s, left_s))
            except LeaseExpired as error:
                lease.right.end(str(error), told=True)
            except DesktopError as error:
                log.warning("the lease of %s could not be renewed: %s", lease.id, error)

    def _about(self, lease: RemoteLease, op: str) -> Message:
        return {"op": op, "lease": lease.id, "epoch": lease.epoch}
