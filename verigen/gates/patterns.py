"""Regular expressions whose time a text can blow up, found by reading the pattern.

The text is the agent's, and no deadline can be put on a match. So a repeated group may hold neither a repetition nor
alternatives (`(a+)+`, `(a|ab)*`), and at most `MAX_WILD` unbounded wildcards may stand in one pattern.
"""

from __future__ import annotations

import re

__all__ = ["MAX_WILD", "pattern_problem"]

MAX_WILD = 2
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*(?:,\d*)?\}|\((?:\?(?:P?<[^>=!]*>|[a-zA-Z:=!<]+))?|.", re.DOTALL
)
_ONCE = ("?", "{0}", "{1}", "{0,1}", "{,1}")


def pattern_problem(pattern: str) -> str:
    """Why a pattern must not be used; empty if it may."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"is not a regular expression: {error}"
    tokens = _TOKEN.findall(pattern)
    choices = [False]  # per open group: whether it can match in several ways
    wild = 0
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        if token.startswith("("):
            choices.append(False)
        elif token == ")":
            inside = choices.pop()
            if inside and _is_quantifier(after) and after not in _ONCE:
                return "repeats a group that holds a repetition or alternatives; say it without repeating the group"
            choices[-1] = choices[-1] or inside
        elif token == "|" or _is_quantifier(token):
            choices[-1] = True
        elif after in ("*", "+") or after.endswith(",}"):
            wild += token == "." or token.startswith("[^")
    if wild > MAX_WILD:
        return f"has {wild} unbounded wildcards, more than {MAX_WILD}; say what may stand there"
    return ""


def _is_quantifier(token: str) -> bool:
    return token in ("*", "+", "?") or (token.startswith("{") and token.endswith("}"))
