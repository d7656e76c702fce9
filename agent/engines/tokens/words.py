"""Plain text in the ids of a `Vocabulary`, and back, without loss.

Two neighbouring tokens have a space between them where text usually has one (between words, after a comma). Where the
text differs, a `join` token takes the space away or a byte token writes it, so every text comes back exactly. No text
gives a special token: `<|image_pad|>` typed on a screen is written in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.engines.tokens.vocabulary import PIECE, Vocabulary

__all__ = ["decode_text", "encode_text"]

_SPACE = 0x20
_BEFORE_A_WORD = frozenset(b").,;:!?")
"""Bytes that usually have a space between them and the word that follows."""


def encode_text(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a text; `decode_text` gives it back exactly. Lone surrogates become question marks."""
    ids: list[int] = []
    gap = False
    for piece in PIECE.findall(text):
        if piece == " " and ids and not gap:
            gap = True
            continue
        tokens = _tokens(vocabulary, piece)
        usual = bool(ids) and _usually_apart(vocabulary, ids[-1], tokens[0])
        if gap and not usual:
            ids.append(vocabulary.byte(_SPACE))
        elif usual and not gap:
            ids.append(vocabulary.join)
        ids += tokens
        gap = False
    if gap:
        ids.append(vocabulary.byte(_SPACE))
    return ids


def decode_text(vocabulary: Vocabulary, ids: Iterable[int]) -> str:
    """The text of words and bytes; other tokens have no text. Bytes that are not UTF-8 become U+FFFD."""
    out = bytearray()
    before: int | None = None
    for token in ids:
        kind = vocabulary.kind(token)
        if kind == "join":
            before = None
        elif kind in ("word", "byte"):
            if before is not None and _usually_apart(vocabulary, before, token):
                out.append(_SPACE)
            out += vocabulary.text(token).encode() if kind == "word" else bytes([vocabulary.byte_value(token)])
            before = token
    return out.decode("utf-8", "replace")


def _tokens(vocabulary: Vocabulary, piece: str) -> list[int]:
    word = vocabulary.find("word", piece)
    return [vocabulary.byte(value) for value in piece.encode("utf-8", "replace")] if word is None else [word]


def _usually_apart(vocabulary: Vocabulary, left: int, right: int) -> bool:
    left_is_word, right_is_word = vocabulary.kind(left) == "word", vocabulary.kind(right) == "word"
    if left_is_word and right_is_word:
        return True
    if left_is_word:
        return _is_alphanumeric(vocabulary.byte_value(right))
    if right_is_word:
        value = vocabulary.byte_value(left)
        return _is_alphanumeric(value) or value in _BEFORE_A_WORD
    return False


def _is_alphanumeric(value: int) -> bool:
    return value >= 0x80 or chr(value).isalnum()
