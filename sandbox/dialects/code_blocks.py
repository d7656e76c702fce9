"""Finds the Python code, and the words WAIT, DONE and FAIL, in what a model wrote around them.

The whole text counts as code if it is Python. Else, after a `</think>`, fenced blocks are the code (one that is never
closed runs to the end), or without fences the lines from the first that looks like code. The rest is thought.

A word counts in prose only in these places, so that "I am done with the first step" does not end an episode:

* alone on its line in capitals, or alone as the whole text or the last line of a text without code in any case
  (`Done.`, `**DONE**`);
* in capitals as the last sentence of the text: `The task is finished. DONE`.

Inside of code it counts as a statement by itself, in any case and with a full stop (`DONE.`).
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass

from sandbox.dialects.protocol import MAX_ACTIONS, Rejected
from sandbox.dialects.python_subset import parse_code

__all__ = ["WORDS", "Code", "find_code"]

WORDS = ("WAIT", "DONE", "FAIL")

_FENCE = "```"
_PYTHON = frozenset({"", "python", "python3", "py", "tool_code"})
_ANY_WORD = "|".join(WORDS)
_ALONE = re.compile(rf"""(\s*)[*_`"'(\[]*({_ANY_WORD})[\s*_`"')\].!]*""")
_ALONE_ANY_CASE = re.compile(_ALONE.pattern, re.IGNORECASE)
_LAST_SENTENCE = re.compile(rf"""[.!?:][*_`"')\]]*\s[\s*_`"'(\[]*({_ANY_WORD})[\s*_`"')\].!]*$""")
# Generous on purpose: a line wrongly taken for code is an error, one wrongly taken for prose is silently not done.
_CODE_LIKE = re.compile(
    rf"""\s*(?:(?:pyautogui|pyperclip|time)\.\w
    |(?:import|from)\s+(?:pyautogui|pyperclip|time)\b
    |for\s+\w+(?:\s*,\s*\w+)*\s+in\s.*:
    |(?:with|if|elif|else|while|try|except|finally|def|class|async)\b.*:
    |[A-Za-z_][\w.]*\(
    |[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*\s*[-+*/]?=\s*\S
    |(?:{_ANY_WORD})\s*$)""",
    re.VERBOSE,
)
_MAX_REPAIRS = 1
_MAX_BLOCKS = 50
_MAX_STATEMENTS = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """Python out of a model's text, its line numbers those of the text."""

    tree: ast.Module
    thought: str


def find_code(text: str) -> Code:
    """Find what a model wants done.

    Raises:
        Rejected: there is no code, it is not Python, or it is in another language.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if match := _ALONE_ANY_CASE.fullmatch(text):
        return Code(tree=parse_code(match[2].upper()), thought="")
    try:
        return Code(tree=parse_code("\n".join(_dedented(text.split("\n")))), thought="")
    except SyntaxError:
        reasoning, text = _after_thinking(text)
    lines = text.split("\n")
    try:
        found = _fenced(lines) if _FENCE in text else _unfenced(lines)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else ""
        raise Rejected(f"this cannot be read as Python: {error.msg}", where=where) from error
    words = _words_in_prose(found.prose, len(lines), any_case=not found.pieces)
    words = {at: word for at, word in words.items() if at not in found.pieces}
    if len(words) > MAX_ACTIONS:
        raise Rejected(f"the words {', '.join(WORDS)} are repeated more than {MAX_ACTIONS} times")
    if not found.pieces and not words:
        raise Rejected("there is no code in the reply; write function calls, or WAIT, DONE or FAIL alone on a line")
    prose = "\n".join(line for line in found.prose.values() if not _ALONE_ANY_CASE.fullmatch(line))
    pieces = found.pieces | {at: _statement(word, at) for at, word in words.items()}
    body = [statement for _, piece in sorted(pieces.items()) for statement in piece]
    return Code(tree=ast.Module(body=body, type_ignores=[]), thought=f"{reasoning}\n{prose}".strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    pieces: dict[int, list[ast.stmt]]
    """Code by the line it starts on, each parsed by itself."""
    prose: dict[int, str]
    """All other lines."""


def _after_thinking(text: str) -> tuple[str, str]:
    """The reasoning before `</think>`, and the rest with as many lines as before."""
    head, end, tail = text.rpartition("</think>")
    if end:
        return head.replace("<think>", "").strip(), "\n" * head.count("\n") + tail
    if text.lstrip().startswith("<think>"):
        raise Rejected("the reply ends inside its thoughts; close them with </think> and write the code after that")
    return "", text


def _unfenced(lines: list[str]) -> _Found:
    like = [at for at, line in enumerate(lines) if _CODE_LIKE.match(line)]
    if not like:
        return _Found(pieces={}, prose=dict(enumerate(lines)))
    first = like[0]
    try:
        end, piece = len(lines), _parse(lines[first:], first)
    except SyntaxError:  # prose after the code
        end = like[-1] + 1
        piece = _parse(lines[first:end], first)
    prose = {at: line for at, line in enumerate(lines) if not first <= at < end}
    return _Found(pieces={first: piece}, prose=prose)


def _fenced(lines: list[str]) -> _Found:
    pieces: dict[int, list[ast.stmt]] = {}
    prose: dict[int, str] = {}
    at = 0
    while at < len(lines):
        if len(pieces) > _MAX_BLOCKS or sum(map(len, pieces.values())) > _MAX_STATEMENTS:
            raise Rejected(f"there are more than {_MAX_BLOCKS} blocks or {_MAX_STATEMENTS} statements of code")
        before, fence, after = lines[at].partition(_FENCE)
        prose[at] = before
        content, closed, tail = after.rpartition(_FENCE)
        if closed:
            prose[at] = f"{before} {tail}"
            pieces[at] = _parse([_without_language(content)], at)
        elif fence:
            end, pieces[at] = _block(lines, at, _without_language(after))
            at = end
            continue
        at += 1
    return _Found(pieces=pieces, prose=prose)


def _block(lines: list[str], opener: int, first: str) -> tuple[int, list[ast.stmt]]:
    """The code from an opening fence on, and the line after it. A fence inside of a text to type does not close it."""
    rest = range(opener + 1, len(lines))
    first_two = itertools.islice((at for at in rest if _closes(lines[at])), 2)
    the_last = itertools.islice((at for at in reversed(rest) if _closes(lines[at])), 1)
    failure: SyntaxError | None = None
    for closer in dict.fromkeys([*first_two, *the_last, len(lines)]):
        last = lines[closer].strip() if closer < len(lines) else _FENCE
        before, _, after = last.rpartition(_FENCE)
        try:
            piece = _parse([first, *lines[opener + 1 : closer], before], opener)
        except SyntaxError as error:
            failure = failure or error
        else:
            return closer if after else closer + 1, piece
    assert failure is not None
    raise failure


def _closes(line: str) -> bool:
    return line.lstrip().startswith(_FENCE) or line.rstrip().endswith(_FENCE)


def _without_language(info: str) -> str:
    """The code on a fence's own line; refuses other languages than Python."""
    word, _, rest = info.strip().partition(" ")
    if word.lower() in _PYTHON:
        return rest.strip()
    if re.fullmatch(r"[A-Za-z][\w+#-]*", word) and word.upper() not in WORDS:
        raise Rejected(f"a `{word}` block is not read; write Python calls in a ```python block")
    return info.strip()


def _dedented(lines: list[str]) -> list[str]:
    """Without the indentation of the first line that has text; textwrap's would also change lines inside of strings."""
    first = next((line for line in lines if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(margin) for line in lines]


def _words_in_prose(prose: dict[int, str], num_lines: int, *, any_case: bool) -> dict[int, str]:
    """The words that count, by line; `any_case` where the text has no code."""
    written = [at for at, line in prose.items() if line.strip()]
    words = {at: match[2] for at in written if (match := _ALONE.fullmatch(prose[at]))}
    if written and all(at in prose for at in range(written[-1], num_lines)):
        last = prose[written[-1]]
        if match := _LAST_SENTENCE.search(last[-60:]):
            words[written[-1]] = match[1]
        elif any_case and (match := _ALONE_ANY_CASE.fullmatch(last)):
            words[written[-1]] = match[2].upper()
    return words


def _statement(word: str, line: int) -> list[ast.stmt]:
    position = {"lineno": line + 1, "col_offset": 0}
    return [ast.Expr(value=ast.Name(id=word, ctx=ast.Load(), **position), **position)]


def _parse(lines: list[str], line: int) -> list[ast.stmt]:
    """Parse code that stands at a line of the text, taking lines such as `DONE.` for the word alone."""
    code = _dedented(lines)
    for repairs_left in reversed(range(_MAX_REPAIRS + 1)):
        try:
            tree = parse_code("\n".join(code))
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            match = _ALONE_ANY_CASE.fullmatch(code[at]) if 0 <= at < len(code) else None
            if match is None or not repairs_left:
                error.lineno = error.lineno and error.lineno + line
                raise
            code[at] = match[1] + match[2].upper()
        else:
            ast.increment_lineno(tree, line)
            return tree.body
    raise AssertionError("the last round returns or raises")
