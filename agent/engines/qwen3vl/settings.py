"""The size of a policy that is built from nothing, as plain data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["TinySize"]


class TinySize(BaseModel):
    """A Qwen3-VL of about a million parameters. The defaults learn to click in minutes on one core."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    patch: int = Field(default=32, ge=4)
    """Side of a patch of the screenshot, pixels."""
    merge: int = Field(default=1, ge=1)
    """Patches a side that become one token. One, for a patch as large as a token, costs a quarter of the usual four
    small ones and learns to point as soon."""
    vision_width: int = Field(default=96, ge=8)
    vision_layers: int = Field(default=2, ge=1)
    vision_heads: int = Field(default=2, ge=1)
    text_width: int = Field(default=96, ge=8)
    text_layers: int = Field(default=3, ge=1)
    text_heads: int = Field(default=4, ge=1)
    head_width: int = Field(default=32, ge=8)
    """Of one head of the language model; a multiple of 8."""
    initializer_range: float = Field(default=0.05, gt=0)
    """Standard deviation of fresh weights."""
