"""Real desktops: images, backends, the probe inside each desktop, the hub that lends them, actions and their dialects.

Names are loaded when first used: the keeper process and the command line import parts of this package without the rest.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Action": "sandbox.actions",
    "Backend": "sandbox.desktop",
    "Box": "sandbox.desktop",
    "Desktop": "sandbox.desktop",
    "DesktopError": "sandbox.errors",
    "DesktopSpec": "sandbox.desktop",
    "DockerBackend": "sandbox.backends.docker",
    "Frame": "sandbox.frame",
    "Hub": "sandbox.hub",
    "LocalBackend": "sandbox.backends.local",
    "Observation": "sandbox.desktop",
    "RecordedBackend": "sandbox.backends.recorded",
    "SandboxError": "sandbox.errors",
    "get_dialect": "sandbox.dialects",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sandbox' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
