"""M-RoPE positions: text counts on by one in all three axes, an image's tokens count rows and columns from one start.

After an image the count goes on from its start plus its longer side. So the position of a token depends only on what is
before it, and a sequence that is continued keeps its positions (Qwen3-VL; Qwen2-VL, section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent.engines.tokens.images import Grid

__all__ = ["mrope_positions"]


def mrope_positions(
    length: int, starts: Sequence[int], grids: Sequence[Grid], merge: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Positions of an expanded sequence.

    Args:
        length: L, tokens.
        starts: where each image's tokens begin, ascending.
        grids: each image's patches.
        merge: patches a side that become one token.

    Returns:
        [3, L] Time, row and column of each token, and the position of the token that comes next.
    """
    positions = np.empty((3, length), np.int64)
    at = count = 0
    for start, (grid_rows, grid_columns) in zip(starts, grids, strict=True):
        positions[:, at:start] = np.arange(count, count + start - at)
        count += start - at
        rows, columns = grid_rows // merge, grid_columns // merge
        end = start + rows * columns
        positions[0, start:end] = count
        positions[1, start:end] = count + np.repeat(np.arange(rows), columns)
        positions[2, start:end] = count + np.tile(np.arange(columns), rows)
        count += max(rows, columns)
        at = end
    positions[:, at:] = np.arange(count, count + length - at)
    return positions, count + length - at
