"""Screenshots as a Qwen3-VL vision encoder takes them: how many tokens one has, and its patches.

`pad` keeps every pixel and adds black at the right and the bottom up to whole token squares: coordinates stay screen
pixels, and small text stays sharp. `resize` is what Qwen's own processors do, which published checkpoints expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from sandbox.dialects.view import Resized, smart_resize

__all__ = ["Grid", "ImagePlan", "Pixels", "compact_ids", "expand_ids"]

Grid = tuple[int, int]
"""Rows and columns of patches."""


class Pixels(Protocol):
    """An image by its pixels; `Frame` and `ImageRef` are such."""

    @property
    def width(self) -> int:
        """Pixels."""
        ...

    @property
    def height(self) -> int:
        """Pixels."""
        ...

    @property
    def pixels(self) -> bytes:
        """[height * width * 3] RGB, rows from the top."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePlan:
    """How a model takes its images."""

    patch: int = 16
    """Side of a patch, pixels."""
    merge: int = 2
    """Patches a side that become one token."""
    fit: Literal["pad", "resize"] = "pad"
    min_pixels: int = 32 * 32
    """Smallest area after resizing."""
    max_pixels: int = 1 << 24
    """Largest area after resizing."""

    @property
    def factor(self) -> int:
        """Side of a token's square, pixels."""
        return self.patch * self.merge

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that the encoder sees, pixels."""
        if self.fit == "resize":
            space = Resized(factor=self.factor, min_pixels=self.min_pixels, max_pixels=self.max_pixels)
            return smart_resize((width, height), space)
        return -(-width // self.factor) * self.factor, -(-height // self.factor) * self.factor

    def grid(self, width: int, height: int) -> Grid:
        """Rows and columns of patches of an image."""
        seen_width, seen_height = self.size(width, height)
        return seen_height // self.patch, seen_width // self.patch

    def num_tokens(self, width: int, height: int) -> int:
        """Tokens of an image."""
        rows, columns = self.grid(width, height)
        return rows * columns // self.merge**2

    def patches(self, image: Pixels) -> npt.NDArray[np.uint8]:
        """[N, 3 * patch * patch] The image's patches, token by token, each token's patches row by row."""
        seen = self._fitted(image)
        rows, columns = seen.shape[0] // self.patch, seen.shape[1] // self.patch
        cut = seen.reshape(rows // self.merge, self.merge, self.patch, columns // self.merge, self.merge, self.patch, 3)
        ordered = cut.transpose(0, 3, 1, 4, 6, 2, 5)
        return np.ascontiguousarray(ordered).reshape(rows * columns, -1)

    def _fitted(self, image: Pixels) -> npt.NDArray[np.uint8]:
        given = np.frombuffer(image.pixels, np.uint8).reshape(image.height, image.width, 3)
        width, height = self.size(image.width, image.height)
        if (width, height) == (image.width, image.height):
            return given
        if self.fit == "pad":
            padded = np.zeros((height, width, 3), np.uint8)
            padded[: image.height, : image.width] = given
            return padded
        from PIL import Image
        from PIL.Image import Resampling

        return np.asarray(Image.fromarray(given).resize((width, height), Resampling.BICUBIC))


def expand_ids(ids: Sequence[int], image_id: int, lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Repeat each image's placeholder to the image's own number of tokens.

    Args:
        ids: [P] compact.
        lengths: tokens of each image, in order.

    Returns:
        The expanded ids, and where each image starts in them.

    Raises:
        ValueError: the number of placeholders and of images differ.
    """
    num_placeholders = sum(token == image_id for token in ids)
    if num_placeholders != len(lengths):
        raise ValueError(f"the prompt has {num_placeholders} image placeholders for {len(lengths)} images")
    expanded: list[int] = []
    starts: list[int] = []
    for token in ids:
        if token == image_id:
            length = lengths[len(starts)]
            starts.append(len(expanded))
            expanded += [image_id] * length
        else:
            expanded.append(token)
    return expanded, starts


def compact_ids(ids: Sequence[int], image_id: int, lengths: Sequence[int]) -> list[int]:
    """The inverse of `expand_ids`.

    Raises:
        ValueError: the runs of image tokens are not those of the images.
    """
    compact: list[int] = []
    at = 0
    images = iter(lengths)
    while at < len(ids):
        compact.append(ids[at])
        if ids[at] == image_id:
            length = next(images, 0)
            if length == 0 or list(ids[at : at + length]) != [image_id] * length:
                raise ValueError(f"no image of {length} tokens starts at position {at}")
            at += length
        else:
            at += 1
    if next(images, None) is not None:
        raise ValueError("there are more images than runs of image tokens")
    return compact
