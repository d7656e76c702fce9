"""The end of an episode, said in words: what a final message or a `finished(...)` means.

::

    DONE                   the task is done; also `Done.`, `**DONE**`, and `The task is finished. DONE`
    [INFEASIBLE] reason    it cannot be done; also FAIL, and the mark at the end of the message
    [ANSWER] text          the answer, whatever it looks like
    anything else          the answer

The marks count at the start of a line or at the end of the message, not in the middle of a sentence; and only in the
message itself: reasoning is taken off before.
"""

from __future__ import annotations

import re

from sandbox.actions import Action, Answer, Done, Infeasible

__all__ = ["HOW_TO_END", "read_ending", "read_marked_ending", "write_ending"]

HOW_TO_END = """\
DONE                   the task is done
[INFEASIBLE] REASON    the task cannot be done
[ANSWER] TEXT          your answer, where the task asks for one"""

_EXACT = re.compile(r"\[(INFEASIBLE|ANSWER)\](?: ([\s\S]*))?")
_WORD = re.compile(r"""[\s*_`"'(\[]*(DONE|FAIL)[\s*_`"')\].!]*""", re.IGNORECASE)
_LAST_SENTENCE = re.compile(r"""[.!?:\n][*_`"')\]]*\s[\s*_`"'(\[]*(DONE|FAIL)[\s*_`"')\].!]*$""")
_MARK = re.compile(r"(?:^|\n)[ \t*_`>#-]*\[INFEASIBLE\][*_`]*[ \t:.,-]*", re.IGNORECASE)
_MARK_AT_END = re.compile(r"\[INFEASIBLE\][\s*_`.!]{0,20}\Z", re.IGNORECASE)


def read_ending(text: str) -> Action | None:
    """What a final message means; None where it is empty."""
    if not text.strip():
        return None
    return read_marked_ending(text) or _read_sentence(text) or Answer(text=text)


def read_marked_ending(text: str) -> Action | None:
    """The ending that a text is by itself: a word alone or a mark at its start; None for any other text."""
    if match := _EXACT.fullmatch(text):
        said = match[2] or ""
        return Infeasible(reason=said) if match[1] == "INFEASIBLE" else Answer(text=said)
    if len(text) < 100 and (match := _WORD.fullmatch(text)):
        return Done() if match[1].upper() == "DONE" else Infeasible()
    if text.strip().upper().startswith("[INFEASIBLE]"):
        return Infeasible(reason=text.strip()[len("[INFEASIBLE]") :].lstrip(" :.,-*_`").strip())
    return None


def _read_sentence(text: str) -> Action | None:
    if match := _MARK.search(text) or _MARK_AT_END.search(text, max(0, len(text) - 60)):
        return Infeasible(reason=f"{text[: match.start()]} {text[match.end() :]}".strip(" \n*_`"))
    start = max(0, len(text) - 60)
    if match := _LAST_SENTENCE.search(text, start):
        return Done() if match[1] == "DONE" else Infeasible(reason=text[: match.start() + 1].strip())
    return None


def write_ending(action: Done | Infeasible | Answer) -> str:
    """The message that `read_ending` reads as this action."""
    match action:
        case Done():
            return "DONE"
        case Infeasible(reason=reason):
            return f"[INFEASIBLE] {reason}" if reason else "[INFEASIBLE]"
        case Answer(text=text):
            return text if read_ending(text) == action else f"[ANSWER] {text}"
