"""The shared interaction probe: many workers borrow desktops from one hub."""

from sandbox.hub.hub import Hub
from sandbox.hub.lease import Lease
from sandbox.hub.metrics import HubStats

__all__ = ["Hub", "HubStats", "Lease"]
