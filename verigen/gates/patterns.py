"""Regular expressions whose time a text can blow up, found by reading the pattern.

The text is the agent's, and no deadline can be put on a match. So a repeated group may not itself repeat without bound
(`(a+)+`), and at most `MAX_WILD` unbounded wildcards may stand in one pattern.
"""

from __future__ import annotations

import re

__all__ = ["MAX_WILD", "pattern_problem"]

MAX_WILD = 2
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*(?:,\d*)?\}|\((?:\?(?:P?<[^>=!]*[>]|[a-zA-Z:=!<]+))?|.", re.DOTALL
)


def pattern_problem(pattern: str) -> str:
    """Why a pattern must not be used; empty if it may."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"is not a regular expression: {error}"
    tokens = _TOKEN.findall(pattern)
    repeats_inside = [False]
    wild = 0
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        if token.startswith("("):
            repeats_inside.append(False)
        elif token == ")":
            inside = repeats_inside.pop()
            if inside and _repeats(after):
                return "repeats a group that itself repeats without bound; write the repetition once"
            repeats_inside[-1] = repeats_inside[-1] or inside
        elif _unbounded(token):
            repeats_inside[-1] = True
        elif _unbounded(after) and (token == "." or token.startswith("[^")):
            wild += 1
    if wild > MAX_WILD:
        return f"has {wild} unbounded wildcards, more than {MAX_WILD}; say what may stand there"
    return ""


def _unbounded(token: str) -> bool:
    return token in ("*", "+") or (token.startswith("{") and token.endswith(",}"))


def _repeats(token: str) -> bool:
    return token in ("*", "+") or (token.startswith("{") and token not in ("{0}", "{1}", "{0,1}"))
