"""From trajectories to training sequences: one for each segment, with exactly the ids the engine saw and sampled.

::

    prompt of the segment's first turn | reply | observation | reply | ...     expanded ids, in the engine's order
    [context]                            train   [context]     train

Guarantees: every sampled token of a trajectory is in exactly one sequence, behind exactly the tokens and images that it
was sampled behind. It is trained there, unless its reply was no action (`Turn.parse_error`): such a reply did nothing,
so what came of the episode says nothing about it, and it is context like the forced tokens. A trajectory without tokens
and one that ended by a failure of infrastructure are refused, as is one whose record does not fit its harness's window
or its screenshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.engines.tokens import Grid, PolicyFormat, expand_ids
from sandbox.frame import Frame
from store.trajectory import TokenTrace, Trajectory
from trainer.segments import cut_segments

__all__ = ["FrameSource", "SequenceImage", "TrainingSequence", "micro_batches", "training_sequences"]

FrameSource = Callable[[str], Frame]
"""Gives a screenshot, at the size shown to the policy, by the name that trajectories know it by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceImage:
    """One image of a sequence."""

    start: int
    """Index of its first token."""
    name: str
    """The frame's name in the trajectory."""
    grid: Grid


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSequence:
    """One segment."""

    trajectory_id: str
    turns: range
    """Turns whose replies lie here to be trained; one that was no action is masked."""
    ids: tuple[int, ...]
    """[L] Expanded."""
    images: tuple[SequenceImage, ...]
    trained: tuple[int, ...]
    """[N] Indices of the sampled tokens, ascending, the first of them above 0."""
    replies: tuple[range, ...]
    """Where the reply of each of `turns` lies, forced and masked tokens included."""
    logprobs: tuple[float, ...]
    """[N] As the engine gave them."""
    advantage: float
    """Of every trained token."""
    oldest_version: int
    """Lowest weight version that sampled any token of the replies."""
    weight: float = 1.0
    """Of every trained token in a supervised loss."""
    as_right: Mapping[int, range] = field(default_factory=dict)
    """Ids that a supervised loss takes for as right as the trained one, by the index of that token: a widget can be
    clicked anywhere."""

    def __post_init__(self) -> None:
        assert len(self.trained) == len(self.logprobs), "per-token fields differ in length"
        assert not self.trained or 0 < self.trained[0] <= self.trained[-1] < len(self.ids)


def training_sequences(
    trajectory: Trajectory,
    form: PolicyFormat,
    *,
    window: int,
    delta: int,
    frames: FrameSource,
    advantage: float = 0.0,
) -> list[TrainingSequence]:
    """Cut a trajectory into training sequences.

    Args:
        window: W of the harness that it was made under.
        delta: of that harness.

    Raises:
        ValueError: the trajectory cannot be trained on; the message says why.
    """
    if trajectory.outcome == "infra_error":
        raise ValueError(
            f"trajectory {trajectory.id!r} ended by a failure of infrastructure; it has no reward to learn"
        )
    traces = [_trace(trajectory, index) for index in range(len(trajectory.turns))]
    breaks = [
        index
        for index in range(1, len(traces))
        if not _extends(traces[index].prompt_ids, traces[index - 1].prompt_ids, traces[index - 1].sampled_ids)
    ]
    sequences = []
    for segment in cut_segments(len(traces), window, delta, breaks=breaks):
        for turn in segment.trained:
            if trajectory.turns[turn].visible != tuple(segment.visible_at(turn)):
                raise ValueError(
                    f"trajectory {trajectory.id!r} was not made under window {window} and delta {delta}: turn {turn} "
                    f"saw the screenshots of turns {trajectory.turns[turn].visible}"
                )
        last = traces[segment.trained.stop - 1]
        names = [_frame_name(trajectory, turn) for turn in segment.visible_at(segment.trained.stop - 1)]
        images = _images(trajectory.id, last, names, form, frames)
        trained: list[int] = []
        logprobs: list[float] = []
        replies = []
        for turn in segment.trained:
            trace = traces[turn]
            first = len(trace.prompt_ids)
            replies.append(range(first, first + len(trace.sampled_ids)))
            if trajectory.turns[turn].parse_error is not None:
                continue
            for index, sampled in enumerate(trace.sampled_mask):
                if sampled:
                    trained.append(first + index)
                    logprobs.append(trace.logprobs[index])
        sequences.append(
            TrainingSequence(
                trajectory_id=trajectory.id,
                turns=segment.trained,
                ids=(*last.prompt_ids, *last.sampled_ids),
                images=images,
                trained=tuple(trained),
                replies=tuple(replies),
                logprobs=tuple(logprobs),
                advantage=advantage,
                oldest_version=min(traces[turn].version_span[0] for turn in segment.trained),
            )
        )
    return sequences


def micro_batches(sequences: Sequence[TrainingSequence], max_tokens: int) -> list[list[TrainingSequence]]:
    """Split into batches of at most so many tokens, padding included; a longer sequence is a batch of its own.

    Sequences of very different lengths are kept apart, because padding costs as much as tokens.
    """
    batches: list[list[TrainingSequence]] = []
    for sequence in sorted(sequences, key=lambda each: len(each.ids)):
        fits = bool(batches) and len(sequence.ids) * (len(batches[-1]) + 1) <= max_tokens
        if fits and len(sequence.ids) <= 2 * len(batches[-1][0].ids):
            batches[-1].append(sequence)
        else:
            batches.append([sequence])
    return batches


def _trace(trajectory: Trajectory, index: int) -> TokenTrace:
    trace = trajectory.turns[index].tokens
    if trace is None:
        raise ValueError(
            f"turn {index} of trajectory {trajectory.id!r} has no tokens; only policies with an engine of ours are "
            f"trained by reinforcement, and {trajectory.actor!r} is none"
        )
    return trace


def _extends(prompt: Sequence[int], before: Sequence[int], reply: Sequence[int]) -> bool:
    middle, end = len(before), len(before) + len(reply)
    return prompt[:middle] == before and prompt[middle:end] == reply


def _frame_name(trajectory: Trajectory, turn: int) -> str:
    name = trajectory.turns[turn].frame
    if name is None:
        raise ValueError(f"turn {turn} of trajectory {trajectory.id!r} names no screenshot")
    return name


def _images(
    trajectory_id: str, trace: TokenTrace, names: Sequence[str], form: PolicyFormat, frames: FrameSource
) -> tuple[SequenceImage, ...]:
    plan = form.images
    sizes = [(frame.width, frame.height) for frame in map(frames, names)]
    ids, starts = expand_ids(trace.sent_ids, form.image_id, [plan.num_tokens(*size) for size in sizes])
    if tuple(ids) != trace.prompt_ids:
        raise ValueError(f"trajectory {trajectory_id!r}: the prompt that the engine saw is not the one that was sent")
    return tuple(
        SequenceImage(start=start, name=name, grid=plan.grid(*size))
        for start, name, size in zip(starts, names, sizes, strict=True)
    )
