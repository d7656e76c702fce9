"""A blob store in memory."""

from __future__ import annotations

import hashlib

__all__ = ["FakeBlobs"]


class FakeBlobs:
    """Content-addressed bytes in a dictionary; `puts` records the hash of every put, repeats included."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.puts: list[str] = []

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.puts.append(name)
        self.data[name] = data
        return name

    def get(self, name: str) -> bytes:
        return self.data[name]

    def has(self, name: str) -> bool:
        return name in self.data
