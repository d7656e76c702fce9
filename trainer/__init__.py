"""Turning trajectories into better weights."""

from trainer.segments import Segment, cut_segments, num_segments

__all__ = ["Segment", "cut_segments", "num_segments"]
