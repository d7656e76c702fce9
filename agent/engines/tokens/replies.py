"""Replies in the compact dialect, in the ids of a `Vocabulary`: a verb, a thought in words, and what the verb takes.

::

    # Save              ->  click Save x41 y19
    click 164 76

A thought needs no mark of its own: it is the words before the verb or, where the verb takes a point, between the verb
and the point. So the name of a target stands right before its coordinates, from where a small model finds them in one
step of attention; with the verb between the two it takes two, and far longer to learn. The usual reply is four tokens.
What has no token (`click 1 2 ctrl`, a rare chord) is written as text behind the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent.engines.tokens.vocabulary import Kind, Vocabulary
from agent.engines.tokens.words import decode_text, encode_text

__all__ = ["POINTED", "SHAPES", "decode_reply", "encode_reply", "thought_mask"]

SHAPES: dict[str, tuple[Kind, ...]] = {
    **{verb: ("x", "y") for verb in ("click", "double", "triple", "right", "middle", "move", "down", "up")},
    "drag": ("x", "y", "x", "y"),
    "scroll": ("x", "y", "amount"),
    "press": ("chord",),
    **{verb: () for verb in ("shot", "done")},
}
"""What follows a verb where it has tokens; the other verbs take text."""
POINTED = frozenset(verb for verb, shape in SHAPES.items() if shape[:1] == ("x",))
"""Verbs that take a point."""
_QUOTED = frozenset({"type", "answer", "infeasible"})
"""Verbs whose text is written as JSON where it has line breaks or outer spaces."""
_TEXT: tuple[Kind, ...] = ("word", "byte", "join")
_ARGUMENTS: tuple[Kind, ...] = ("x", "y", "amount", "chord")


def encode_reply(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a reply in the compact dialect; coordinates move to the middle of their bin.

    Raises:
        ValueError: a line starts with no verb that has a token, takes a point in another way than a token can say, or
            a thought comes after an action.
    """
    ids: list[int] = []
    thoughts: list[str] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        if not line.startswith("#"):
            verb, _, rest = line.partition(" ")
            token = vocabulary.find("verb", verb)
            if token is None:
                raise ValueError(f"{verb!r} has no token; a line of a demonstration starts with a verb or with #")
            thought = [] if ids else encode_text(vocabulary, "\n".join(thoughts))
            ids += [token, *thought] if verb in POINTED else [*thought, token]
            ids += _arguments(vocabulary, verb, rest)
        elif ids:
            raise ValueError("a thought comes after an action; small policies think first")
        else:
            thoughts.append(line[1:].strip())
    return ids or encode_text(vocabulary, "\n".join(thoughts))


def decode_reply(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The reply in the compact dialect. Any ids give some text; whether it is an action is the dialect's to say."""
    lines: list[str] = []
    verb = ""
    thought: list[int] = []
    rest: list[int] = []

    def close() -> None:
        text = decode_text(vocabulary, thought)
        lines.extend(f"# {line}" for line in text.split("\n") if text)
        lines.extend([_line(vocabulary, verb, rest)] if verb else [])

    for token, is_thought in zip(ids, thought_mask(vocabulary, ids), strict=True):
        if vocabulary.kind(token) == "verb":
            if verb:
                close()
                thought = []
            verb, rest = vocabulary.text(token), []
        else:
            (thought if is_thought else rest).append(token)
    close()
    return "\n".join(lines)


def thought_mask(vocabulary: Vocabulary, ids: Sequence[int]) -> list[bool]:
    """[S] True on words of thought: those before the first verb, and those between a verb and its point."""
    mask = []
    thinking = True
    for token in ids:
        kind = vocabulary.kind(token)
        if kind == "verb":
            thinking = vocabulary.text(token) in POINTED
        elif kind not in _TEXT:
            thinking = False
        mask.append(thinking and kind in _TEXT)
    return mask


def _arguments(vocabulary: Vocabulary, verb: str, rest: str) -> list[int]:
    if verb in _QUOTED and rest.startswith('"'):
        return encode_text(vocabulary, json.loads(rest, strict=False))
    shape = SHAPES.get(verb)
    if shape is None:
        return encode_text(vocabulary, rest)
    if shape == ("chord",):
        chord = vocabulary.find("chord", rest)
        return encode_text(vocabulary, rest) if chord is None else [chord]
    words = rest.split(None, len(shape))
    num_points = sum(kind in ("x", "y") for kind in shape)
    count = next((i for i, word in enumerate(words) if i == num_points or not word.isdecimal()), len(words))
    if count < num_points and len(words) > count:
        raise ValueError(f"{verb} {rest} has no tokens; a small policy writes {verb} with {', '.join(shape)} first")
    points = [(vocabulary.x, vocabulary.y)[i % 2](int(word)) for i, word in enumerate(words[:count])]
    text = " ".join(words[count:])
    amount = vocabulary.find("amount", text) if "amount" in shape else None
    return [*points, *(encode_text(vocabulary, text) if amount is None else [amount])]


def _line(vocabulary: Vocabulary, verb: str, ids: Sequence[int]) -> str:
    split = next((i for i, token in enumerate(ids) if vocabulary.kind(token) not in _ARGUMENTS), len(ids))
    words = [verb, *(vocabulary.text(token) for token in ids[:split])]
    text = decode_text(vocabulary, ids[split:])
    if verb in _QUOTED and (text != text.strip() or text.startswith('"') or "\n" in text):
        text = json.dumps(text, ensure_ascii=False)
    return " ".join([*words, text] if text else words)
