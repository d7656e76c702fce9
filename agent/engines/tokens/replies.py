"""Replies in the compact dialect, in the ids of a `Vocabulary`: a thought in words, a verb, and what it takes.

::

    # Save              ->  Save click x41 y19
    click 164 76

A thought needs no mark of its own: it is the words before the verb. So the usual reply is four tokens. What a token
cannot say (`click 10 20 ctrl`, a key chord without a token) is written as text behind the verb.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agent.engines.tokens.vocabulary import Kind, Vocabulary
from agent.engines.tokens.words import decode_text, encode_text

__all__ = ["SHAPES", "action_start", "decode_reply", "encode_reply"]

SHAPES: dict[str, tuple[Kind, ...]] = {
    **{verb: ("x", "y") for verb in ("click", "double", "triple", "right", "middle", "move", "down", "up")},
    "drag": ("x", "y", "x", "y"),
    "scroll": ("x", "y", "amount"),
    "press": ("chord",),
    **{verb: () for verb in ("shot", "done")},
}
"""What follows a verb where it has tokens; the other verbs take text."""
_QUOTED = frozenset({"type", "answer", "infeasible"})
"""Verbs whose text is written as JSON where it has line breaks or outer spaces."""
_ARGUMENTS: tuple[Kind, ...] = ("x", "y", "amount", "chord")


def encode_reply(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a reply in the compact dialect; coordinates move to the middle of their bin.

    Raises:
        ValueError: a line starts with no verb that has a token, or a thought comes after an action.
    """
    ids: list[int] = []
    thoughts: list[str] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        if not line.startswith("#"):
            verb, _, rest = line.partition(" ")
            token = vocabulary.find("verb", verb)
            if token is None:
                raise ValueError(f"{verb!r} has no token; a line of a demonstration starts with a verb or with #")
            ids += [token, *_arguments(vocabulary, verb, rest)]
        elif ids:
            raise ValueError("a thought comes after an action; small policies think first")
        else:
            thoughts.append(line[1:].strip())
    return encode_text(vocabulary, "\n".join(thoughts)) + ids


def decode_reply(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The reply in the compact dialect. Any ids give some text; whether it is an action is the dialect's to say."""
    start = action_start(vocabulary, ids)
    thought = decode_text(vocabulary, ids[:start])
    lines = [f"# {line}" for line in thought.split("\n")] if thought else []
    at = start
    while at < len(ids):
        end = next((i for i in range(at + 1, len(ids)) if vocabulary.kind(ids[i]) == "verb"), len(ids))
        lines.append(_line(vocabulary, vocabulary.text(ids[at]), ids[at + 1 : end]))
        at = end
    return "\n".join(lines)


def action_start(vocabulary: Vocabulary, ids: Sequence[int]) -> int:
    """Index of the first verb: where the thought ends. All of it is thought where there is none."""
    return next((index for index, token in enumerate(ids) if vocabulary.kind(token) == "verb"), len(ids))


def _arguments(vocabulary: Vocabulary, verb: str, rest: str) -> list[int]:
    if verb in _QUOTED and rest.startswith('"'):
        return encode_text(vocabulary, json.loads(rest, strict=False))
    shape = SHAPES.get(verb)
    if shape is None:
        return encode_text(vocabulary, rest)
    if shape == ("chord",):
        chord = vocabulary.find("chord", rest)
        return encode_text(vocabulary, rest) if chord is None else [chord]
    numbers = re.findall(r"\S+", rest)
    num_points = sum(kind in ("x", "y") for kind in shape)
    amount = vocabulary.find("amount", " ".join(numbers[num_points:])) if "amount" in shape else None
    exact = len(numbers) == num_points if "amount" not in shape else amount is not None
    if not exact or not all(number.isdecimal() for number in numbers[:num_points]):
        return encode_text(vocabulary, rest)
    points = [(vocabulary.x, vocabulary.y)[i % 2](int(number)) for i, number in enumerate(numbers[:num_points])]
    return points if amount is None else [*points, amount]


def _line(vocabulary: Vocabulary, verb: str, ids: Sequence[int]) -> str:
    split = next((i for i, token in enumerate(ids) if vocabulary.kind(token) not in _ARGUMENTS), len(ids))
    words = [verb, *(vocabulary.text(token) for token in ids[:split])]
    text = decode_text(vocabulary, ids[split:])
    if verb in _QUOTED and (text != text.strip() or text.startswith('"') or "\n" in text):
        text = json.dumps(text, ensure_ascii=False)
    return " ".join([*words, text] if text else words)
