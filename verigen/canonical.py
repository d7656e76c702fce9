"""One way to turn plain data into bytes, so that a hash names the data and not how it was written down."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["canonical_bytes", "content_hash"]


def canonical_bytes(data: Any) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8.

    Raises:
        ValueError: the data holds a NaN or an infinity, which JSON cannot say.
    """
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def content_hash(data: Any) -> str:
    """sha256 of the canonical bytes, in hex."""
    return hashlib.sha256(canonical_bytes(data)).hexdigest()
