"""Demonstrations as training sequences: an oracle's trajectories, and exercises in pointing.

An oracle writes text, so its trajectories have no tokens. They are given here, by the same `TokenStream` under the same
window H(W, delta) as a policy's own, so that a policy is warmed up on the very contexts it will act in. A click is
preceded by the name of what is clicked: naming the target first is what lets a small model learn to point.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.context import Context
from agent.engines.tokens import CompactFormat, TokenStream, expand_ids
from agent.harness import Harness
from sandbox.dialects import get_dialect
from sandbox.frame import Frame
from store.trajectory import TokenTrace, Trajectory, Turn
from trainer.batches import FrameSource, SequenceImage, TrainingSequence
from trainer.widgets import Widget, bins_of, fitting_name, widget_at

__all__ = ["forgiving", "pointing_sequence", "with_tokens"]

_POINTED = frozenset({"click", "move"})
MAX_NAME = 6
"""Tokens of a target's name, as many as the grammar lets a thought have."""


def with_tokens(
    trajectory: Trajectory,
    form: CompactFormat,
    harness: Harness,
    *,
    frames: FrameSource,
    widgets: Mapping[str, Sequence[Widget]] | None = None,
) -> Trajectory:
    """The trajectory with the tokens that a policy of this format would have written it in.

    Log-probabilities are 0 and versions 0: nothing was sampled. All tokens that the grammar leaves open are marked as
    trained.

    Args:
        harness: it was made under this one.
        widgets: what lies on its screenshots, by their names; names the targets of clicks.

    Raises:
        ValueError: a reply has no tokens, or the harness shows anything but the screenshots as they are.
    """
    if harness.observe != ("frame",) or harness.max_side is not None:
        raise ValueError(
            'demonstrations need a harness with observe = ["frame"] and no max_side, so that actions are pixels of '
            f"what is shown; {harness.name!r} has observe = {list(harness.observe)} and max_side = {harness.max_side}"
        )
    context = Context(window=harness.window, delta=harness.delta)
    stream = TokenStream(form, system_prompt="", instruction=trajectory.instruction, placeholder=harness.placeholder)
    dialect = get_dialect(harness.dialect)
    turns: list[Turn] = []
    feedback = ""
    for turn in trajectory.turns:
        if turn.frame is None:
            raise ValueError(f"turn {turn.index} of trajectory {trajectory.id!r} names no screenshot")
        context.observe(frames(turn.frame), feedback)
        prompt = stream.prompt(context.turns)
        text = _named(turn, form, (widgets or {}).get(turn.frame, ()))
        reply = form.encode_reply(text)
        stream.record(turn.index, reply)
        context.answer(text)
        turns.append(turn.model_copy(update={"tokens": _trace(form, prompt.ids, prompt.frames, reply)}))
        told = [turn.parse_error] if turn.parse_error else map(dialect.render_result, turn.action_errors)
        feedback = "\n".join(told)
    return trajectory.model_copy(update={"turns": tuple(turns)})


def pointing_sequence(
    name: str,
    frame: Frame,
    widgets: Sequence[Widget],
    form: CompactFormat,
    rng: random.Random,
    *,
    limit: int = 10,
    weight: float = 1.0,
) -> TrainingSequence | None:
    """An exercise on one screenshot: told the names of some widgets, click each. None where it has none to name.

    Only the coordinates are trained: which widgets are asked for is chance.

    Args:
        name: the screenshot's, in trajectories.
        limit: the most widgets that are asked for.
        weight: of its tokens beside those of demonstrations.
    """
    vocabulary, plan = form.vocabulary, form.images
    (length,) = [plan.num_tokens(frame.width, frame.height)]
    ids, starts = expand_ids(
        [vocabulary.special("<|point|>"), vocabulary.special("<|vision_start|>"), form.image_id],
        form.image_id,
        [length],
    )
    ids.append(vocabulary.special("<|vision_end|>"))
    trained: list[int] = []
    replies = []
    as_right: dict[int, range] = {}
    named = [(fitting_name(form, widget.name, MAX_NAME), widget) for widget in widgets]
    known = [(text, widget) for text, widget in named if text]
    for text, widget in rng.sample(known, min(limit, len(known))):
        x, y = widget.center
        ids.append(vocabulary.special("<|act|>"))
        reply = form.encode_reply(f"# {text}\nclick {x} {y}")
        replies.append(range(len(ids), len(ids) + len(reply)))
        ids += reply
        trained += [len(ids) - 3, len(ids) - 2]
        bins = bins_of(widget, vocabulary)
        as_right |= {len(ids) - 3: bins.x, len(ids) - 2: bins.y}
    if not trained:
        return None
    return TrainingSequence(
        trajectory_id=f"pointing:{name}",
        turns=range(0),
        ids=tuple(ids),
        images=(SequenceImage(start=starts[0], name=name, grid=plan.grid(frame.width, frame.height)),),
        trained=tuple(trained),
        replies=tuple(replies),
        logprobs=(0.0,) * len(trained),
        advantage=0.0,
        oldest_version=0,
        weight=weight,
        as_right=as_right,
    )


def forgiving(
    sequence: TrainingSequence,
    trajectory: Trajectory,
    form: CompactFormat,
    widgets: Mapping[str, Sequence[Widget]],
) -> TrainingSequence:
    """A demonstration's sequence in which a click anywhere in the middle of its target is right.

    Args:
        trajectory: that the sequence is of.
        widgets: what lies on its screenshots, by their names.
    """
    as_right: dict[int, range] = {}
    for number, reply in zip(sequence.turns, sequence.replies, strict=True):
        turn = trajectory.turns[number]
        target = _target(turn, widgets.get(turn.frame or "", ()))
        if target is None:
            continue
        bins = bins_of(target, form.vocabulary)
        for index in reply:
            token = sequence.ids[index]
            kind = form.vocabulary.kind(token)
            if kind in ("x", "y") and token in (ids := bins.x if kind == "x" else bins.y):
                as_right[index] = ids
    return replace(sequence, as_right=as_right)


def _named(turn: Turn, form: CompactFormat, widgets: Sequence[Widget]) -> str:
    """The reply behind the name of what it clicks on; as it is where that is not known or it has a thought."""
    target = None if turn.thought else _target(turn, widgets)
    name = "" if target is None else fitting_name(form, target.name, MAX_NAME)
    return f"# {name}\n{turn.raw}" if name else turn.raw


def _target(turn: Turn, widgets: Sequence[Widget]) -> Widget | None:
    """What a turn's action points at."""
    action = turn.actions[0] if turn.actions else {}
    point = action.get("point")
    if action.get("kind") not in _POINTED or point is None:
        return None
    return widget_at(widgets, point["x"], point["y"])


def _trace(form: CompactFormat, sent_ids: tuple[int, ...], frames: Sequence[Frame], reply: Sequence[int]) -> TokenTrace:
    lengths = [form.images.num_tokens(frame.width, frame.height) for frame in frames]
    forced = [False] * len(reply)
    if form.grammar is not None:
        forced = [form.grammar.forced(state) is not None for state in form.grammar.states(reply)]
    return TokenTrace(
        sent_ids=sent_ids,
        prompt_ids=tuple(expand_ids(sent_ids, form.image_id, lengths)[0]),
        sampled_ids=tuple(reply),
        logprobs=(0.0,) * len(reply),
        sampled_mask=tuple(not each for each in forced),
        action_mask=tuple(form.action_mask(reply)),
        version_span=(0, 0),
    )
