"""A prompt as the engine runs it, and the encoded images that it needs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agent.engines.protocol import ImageRef, PlaceholderSpan
from agent.engines.qwen3vl.mrope import mrope_positions
from agent.engines.qwen3vl.prefixes import PrefixKey
from agent.engines.qwen3vl.sequences import TokenRun
from agent.engines.qwen3vl.vision import ImageTokens, Patches, VisionEncoder
from agent.engines.tokens.formats import PolicyFormat
from agent.engines.tokens.images import ImagePlan, expand_ids

__all__ = ["EncodedImages", "ExpandedPrompt"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpandedPrompt:
    """A prompt with its images' placeholders expanded."""

    ids: tuple[int, ...]
    """[P]"""
    images: tuple[ImageRef, ...]
    starts: tuple[int, ...]
    """Where each image's tokens begin."""
    lengths: tuple[int, ...]
    """Tokens of each image."""
    positions: npt.NDArray[np.int64]
    """[3, P] M-RoPE."""
    next_position: int
    """M-RoPE position of the token after it."""

    @classmethod
    def of(cls, form: PolicyFormat, compact: Sequence[int], images: Sequence[ImageRef]) -> ExpandedPrompt:
        """Expand a compact prompt.

        Raises:
            ValueError: the number of placeholders and of images differ.
        """
        plan = form.images
        lengths = [plan.num_tokens(image.width, image.height) for image in images]
        ids, starts = expand_ids(compact, form.image_id, lengths)
        grids = [plan.grid(image.width, image.height) for image in images]
        positions, next_position = mrope_positions(len(ids), starts, grids, plan.merge)
        return cls(
            ids=tuple(ids),
            images=tuple(images),
            starts=tuple(starts),
            lengths=tuple(lengths),
            positions=positions,
            next_position=next_position,
        )

    @property
    def placeholders(self) -> tuple[PlaceholderSpan, ...]:
        """Where its images' tokens lie."""
        spans = zip(self.starts, self.lengths, strict=True)
        return tuple(
            PlaceholderSpan(image=index, start=start, length=length) for index, (start, length) in enumerate(spans)
        )

    def keys(self) -> list[PrefixKey]:
        """[P] What each token is, for comparing prefixes: an image's tokens are named by its hash."""
        keys: list[PrefixKey] = list(self.ids)
        for image, start, length in zip(self.images, self.starts, self.lengths, strict=True):
            keys[start : start + length] = [image.sha256] * length
        return keys

    def images_from(self, start: int) -> list[ImageRef]:
        """The images whose tokens begin at this position or later."""
        return [image for image, at in zip(self.images, self.starts, strict=True) if at >= start]

    def run(self, start: int, sampled: Sequence[int]) -> TokenRun:
        """The tokens from this position on, those sampled after the prompt included."""
        after = self.next_position + np.arange(len(sampled))
        positions = np.concatenate([self.positions, np.broadcast_to(after, (3, len(sampled)))], axis=1)[:, start:]
        named = zip(self.starts, self.images, strict=True)
        return TokenRun(
            ids=[*self.ids, *sampled][start:],
            images=[(at - start, image.sha256) for at, image in named if at >= start],
            positions=positions,
        )


class EncodedImages:
    """The images that were encoded last, by hash, under the weights that serve.

    Args:
        max_images: how many are kept beyond those of the call at hand.
    """

    def __init__(self, encoder: VisionEncoder, plan: ImagePlan, max_images: int) -> None:
        self._encoder = encoder
        self._plan = plan
        self._max_images = max_images
        self._encoded: OrderedDict[str, ImageTokens] = OrderedDict()

    def __call__(self, images: Iterable[ImageRef]) -> dict[str, ImageTokens]:
        """These images, encoded; those that are not kept are encoded together."""
        wanted = {image.sha256: image for image in images}
        missing = [image for name, image in wanted.items() if name not in self._encoded]
        patches = [
            Patches(grid=self._plan.grid(image.width, image.height), values=self._plan.patches(image))
            for image in missing
        ]
        self._encoded.update(zip((image.sha256 for image in missing), self._encoder(patches), strict=True))
        for name in wanted:
            self._encoded.move_to_end(name)
        found = {name: self._encoded[name] for name in wanted}
        while len(self._encoded) > self._max_images:
            self._encoded.popitem(last=False)
        return found

    def clear(self) -> None:
        """Drop everything: the weights change, or where they are."""
        self._encoded.clear()
        self._encoder.clear()
