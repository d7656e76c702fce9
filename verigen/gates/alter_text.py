"""Changes of a text for a text check."""

from __future__ import annotations

import random
import re

from verigen.checks.model import TextCheck
from verigen.checks.text import normal_text

__all__ = ["damaged", "preserved"]

NUM_TYPOS = 3


def damaged(check: TextCheck, text: str, rng: random.Random) -> list[tuple[str, str]]:
    """Texts that no longer are what the check demands; changes that it declares not to count are left out."""
    match check.match:
        case "equals" | "regex":
            changes = _whole(text, rng)
        case "contains" | "line":
            changes = _passage(check, text, rng)
        case "not_contains":
            changes = [
                ("the passage back", f"{text}\n{check.expected}\n"),
                ("the passage in front", check.expected + text),
            ]
    original = normal_text(text, check)
    if check.match == "regex" and check.ignore_case:
        return [(what, changed) for what, changed in changes if changed.casefold() != original.casefold()]
    return [(what, changed) for what, changed in changes if normal_text(changed, check) != original]


def preserved(check: TextCheck, text: str) -> list[tuple[str, str]]:
    """Texts that are the same to the check."""
    if not check.ignore_trailing_whitespace:
        return []
    return [
        ("blanks at line ends", "\n".join(f"{line} " for line in text.split("\n"))),
        ("carriage returns", text.replace("\r\n", "\n").replace("\n", "\r\n")),
        ("empty lines at the end", f"{text}\n\n\n"),
    ]


def _whole(text: str, rng: random.Random) -> list[tuple[str, str]]:
    lines = text.rstrip("\n").split("\n")
    changes = [
        ("emptied", ""),
        ("the first line gone", "\n".join(lines[1:])),
        ("the last line gone", "\n".join(lines[:-1])),
        ("the last line twice", "\n".join([*lines, lines[-1]])),
        ("a line added", f"{text.rstrip()}\nand more"),
        ("cut in half", text[: len(text) // 2]),
        ("the case swapped", text.swapcase()),
        ("a blank in front", f" {text}"),
    ]
    return changes + [("a typo", _typo(text, rng)) for _ in range(NUM_TYPOS)]


def _passage(check: TextCheck, text: str, rng: random.Random) -> list[tuple[str, str]]:
    """Damage every place where the passage stands."""
    pattern = re.compile(re.escape(check.expected.strip()), re.IGNORECASE if check.ignore_case else 0)
    if check.match == "line":
        pattern = re.compile(rf"^{pattern.pattern}[ \t\r]*$", pattern.flags | re.MULTILINE)
    changes = [("emptied", ""), ("the passage gone", pattern.sub("", text))]
    typos = [_typo(check.expected.strip(), rng) for _ in range(NUM_TYPOS)]
    # Backslashes in a replacement would be read as escapes.
    changes += [("a typo", pattern.sub(typo.replace("\\", r"\\"), text)) for typo in typos]
    if not check.ignore_case:
        changes.append(("the case swapped", pattern.sub(lambda found: found[0].swapcase(), text)))
    if check.match == "line":
        changes.append(("more on the line", pattern.sub(lambda found: f"{found[0].rstrip()} more", text)))
    return changes


def _typo(text: str, rng: random.Random) -> str:
    """The text with one visible character replaced by its neighbour."""
    places = [index for index, char in enumerate(text) if not char.isspace()]
    if not places:
        return text
    at = rng.choice(places)
    return text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
