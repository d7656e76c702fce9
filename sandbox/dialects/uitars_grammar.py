"""Reads UI-TARS's text into calls: `Thought: ...`, then `Action: name(argument='value')`, one or several.

The reader goes through the text once and knows when it is inside of quotes, so that typed text may contain anything.
Models often leave quotes inside of quotes as they are (`content='it's'`); a quote ends its text if it is not escaped
and an argument or the end of the call follows it.

Values are in single or double quotes, in brackets, or bare words. In quotes, `\\n`, `\\t`, `\\r`, `\\\\`, `\\'`, `\\"`,
`\\xHH` and `\\uHHHH` are decoded and any other backslash is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandbox.dialects.protocol import MAX_ACTIONS, Rejected

__all__ = ["Argument", "Call", "Turn", "decode", "encode", "read_calls"]

MAX_WORK = 100_000
"""Characters that may be searched in vain for the ends of quotes."""

_ACTION = re.compile(r"[ \t]*[*_]*Actions?[*_]*[ \t]*:[*_]*[ \t]*", re.IGNORECASE)
_ACTION_LINE = re.compile(r"^[ \t]*[*_]*Actions?[*_]*[ \t]*:[*_]*[ \t]*", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"\A\s*Thoughts?\s*:\s*", re.IGNORECASE)
_CALL = re.compile(r"([A-Za-z_]\w{0,39})[ \t]*\(")
_CALL_LINE = re.compile(r"^[ \t]*[A-Za-z_]\w{0,39}\((?:[ \t]*\)|[ \t]*[A-Za-z_]\w*[ \t]*=)", re.MULTILINE)
_NAME = re.compile(r"\s*([A-Za-z_]\w{0,39})\s*=\s*")
_BARE = re.compile(r"[^\s,()'\"\[\]]+|\([^()\n]*\)|\[[^\[\]\n]*\]")
_QUOTE = {"'": re.compile(r"\\[\s\S]|'"), '"': re.compile(r'\\[\s\S]|"')}
_SURELY_ENDS = re.compile(r"\s*(?:,\s*[A-Za-z_]\w*\s*=|\)[ \t]*(?:\Z|[#;\n]|[A-Za-z_]\w*\())")
_MAY_END = re.compile(r"\s*[,)]")
_NEXT = re.compile(r"\s*(?:;|\n|#[^\n]*|```[a-z]*)*\s*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([ntr\\'\"]))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One value as it is written."""

    text: str
    """Without its quotes, not decoded."""
    quoted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call."""

    name: str
    arguments: dict[str, Argument]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What a text says."""

    thought: str
    calls: list[Call]


def read_calls(text: str) -> Turn:
    """Read a turn.

    Raises:
        Rejected: it has no call, or one that cannot be read; `where` counts the calls.
    """
    start = (
        _CALL_LINE.match(text, len(text) - len(text.lstrip())) or _ACTION_LINE.search(text) or _CALL_LINE.search(text)
    )
    if start is None:
        raise Rejected("there is no action in the reply; write Action: and a call such as click(start_box='(x,y)')")
    thoughts = [_THOUGHT.sub("", text[: start.start()]).strip(" \t\n`")]
    reader = _Reader(text)
    at = start.start()
    calls: list[Call] = []
    while at < len(text):
        marker = _ACTION.match(text, at)
        at = _after_gap(text, marker.end() if marker else at)
        match = _CALL.match(text, at)
        if match is None:
            if marker:
                raise Rejected("after Action: there must be a call such as click(start_box='(x,y)')", where=_nth(calls))
            following = _ACTION_LINE.search(text, at)
            end = following.start() if following else len(text)
            thoughts.append(_THOUGHT.sub("", text[at:end]).strip(" \t\n`"))
            at = end
            continue
        if len(calls) == MAX_ACTIONS:
            raise Rejected(f"there are more than {MAX_ACTIONS} calls")
        try:
            arguments, at = reader.arguments(match.end())
        except Rejected as error:
            raise Rejected(error.message, where=_nth(calls)) from error
        calls.append(Call(name=match[1], arguments=arguments))
        at = _after_gap(text, at)
    return Turn(thought="\n".join(part for part in thoughts if part), calls=calls)


def decode(text: str) -> str:
    """The text that stands in quotes."""
    return _ESCAPE.sub(_decoded, text)


def encode(text: str) -> str:
    """A text as it stands in single quotes, on one line."""
    for char, escape in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(char, escape)
    return text


def _decoded(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


def _nth(calls: list[Call]) -> str:
    return f"call {len(calls) + 1}"


def _after_gap(text: str, at: int) -> int:
    match = _NEXT.match(text, at)
    return match.end() if match else at


class _Reader:
    """Reads arguments and bounds the work."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._work = 0

    def arguments(self, at: int) -> tuple[dict[str, Argument], int]:
        """The arguments after an opening parenthesis, and where the call ends."""
        text, found = self._text, dict[str, Argument]()
        while True:
            at = _skip(text, at)
            if text.startswith(")", at):
                return found, at + 1
            if found:
                if not text.startswith(",", at):
                    raise Rejected("the call is not closed; write name(argument='value')")
                at = _skip(text, at + 1)
                if text.startswith(")", at):
                    return found, at + 1
            match = _NAME.match(text, at)
            if match is None:
                raise Rejected("arguments are written name='value'")
            name = match[1]
            if name in found:
                raise Rejected(f"{name}: is given twice")
            found[name], at = self._value(name, match.end())

    def _value(self, name: str, at: int) -> tuple[Argument, int]:
        quote = self._text[at : at + 1]
        if quote in _QUOTE:
            end = self._end_of_quote(name, quote, at + 1)
            return Argument(text=self._text[at + 1 : end], quoted=True), end + 1
        match = _BARE.match(self._text, at)
        if match is None:
            raise Rejected(f"{name}: a value is written in quotes")
        return Argument(text=match[0], quoted=False), match.end()

    def _end_of_quote(self, name: str, quote: str, start: int) -> int:
        text, possible = self._text, -1
        for match in _QUOTE[quote].finditer(text, start):
            if len(match[0]) > 1:
                continue
            if _SURELY_ENDS.match(text, match.end()):
                return match.start()
            if possible < 0 and _MAY_END.match(text, match.end()):
                possible = match.start()
        self._work += len(text) - start
        if self._work > MAX_WORK:
            raise Rejected("the quotes in the reply cannot be told apart; escape those inside of a text as \\'")
        if possible < 0:
            raise Rejected(f"{name}: the text is not closed by {quote}")
        return possible


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
