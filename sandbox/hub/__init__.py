"""The shared interaction probe: many workers borrow desktops from one hub, in their process or over a socket."""

from sandbox.hub.hub import Hub
from sandbox.hub.lease import Lease
from sandbox.hub.link import HubAddress
from sandbox.hub.metrics import HubStats
from sandbox.hub.protocol import Lender, Loan
from sandbox.hub.remote import RemoteHub
from sandbox.hub.server import HubServer

__all__ = ["Hub", "HubAddress", "HubServer", "HubStats", "Lease", "Lender", "Loan", "RemoteHub"]
