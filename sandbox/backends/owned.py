"""A desktop that this process owns, whatever kind of box it is in: how it ends, what it used, and why a call failed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from sandbox import errors
from sandbox.backends.cgroups import Cgroup
from sandbox.client import ProbeClient
from sandbox.desktop import DesktopSpec, Health
from sandbox.image import Image
from sandbox.probe_desktop import ProbeDesktop

__all__ = ["OwnedDesktop", "Owner"]


class Owner(Protocol):
    """The backend that made a desktop, as the desktop sees it."""

    def ended(self, desktop_id: str) -> str | None:
        """How a desktop ended; None while it lives."""
        ...

    async def fate(self, desktop_id: str) -> str | None:
        """`ended`, asked when a call has just failed: news that is on its way is waited for."""
        ...

    async def destroy(self, desktop_id: str) -> str:
        """End a desktop and wait until its processes are gone; returns the last that it printed. Idempotent."""
        ...


class OwnedDesktop(ProbeDesktop):
    """A desktop of this machine. Made by a backend's `boot`."""

    def __init__(
        self,
        desktop_id: str,
        spec: DesktopSpec,
        image: Image,
        client: ProbeClient,
        owner: Owner,
        cgroup: Cgroup,
    ) -> None:
        super().__init__(desktop_id, spec, image.digest, client)
        self._owner = owner
        self.cgroup = cgroup
        """Its control group: CPU time and memory used."""

    @contextlib.asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        try:
            yield
        except errors.ProbeLost as error:
            # Was it the probe alone, or everything?
            ended = await self._owner.fate(self.id)
            if ended is not None:
                raise errors.DesktopLost(f"the desktop is gone: {ended}", phase=error.phase) from error
            error.state.update(self._used())
            raise
        except errors.DesktopError as error:
            error.state.update(self._used())
            raise

    def _used(self) -> dict[str, str]:
        used: dict[str, str] = {}
        with contextlib.suppress(OSError):  # it is just ending
            used["oom_kills"] = str(self.cgroup.oom_kills())
            used["memory_bytes"] = str(self.cgroup.memory_bytes())
        return used

    async def health(self) -> Health:
        """Whether it still is usable, with causes and resources used."""
        ended = self._owner.ended(self.id)
        if ended is not None:
            return Health(alive=False, detail={"box": ended})
        health = await super().health()
        used = self._used()
        with contextlib.suppress(OSError):
            used["cpu_seconds"] = f"{self.cgroup.cpu_seconds():.3f}"
        return Health(alive=health.alive, detail={**health.detail, **used})

    async def close(self) -> None:
        """Destroy it; returns when its processes are gone."""
        self._close_forwards()
        await self._owner.destroy(self.id)
