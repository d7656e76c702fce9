"""What an API's reply comes to: its words and calls in order become actions, thought and perhaps an ending.

Words before the last call are thought. Words after it are an ending if they are one by themselves, and thought
otherwise; in a reply without calls they are the final message (`endings`). Reasoning is always thought, so a mark such
as `[INFEASIBLE]` in it does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sandbox.actions import Action
from sandbox.dialects.endings import read_ending, read_marked_ending
from sandbox.dialects.protocol import Reading, Rejected, explain

__all__ = ["Called", "Said", "assemble"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """Words."""

    text: str
    reasoning: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Called:
    """A tool call."""

    read: Callable[[], list[Action]]
    """Its actions; raises ValueError for a call that is none."""
    id: str | None = None


def assemble(parts: Iterable[Said | Called], *, thought: str, noun: str, ends_in_words: bool) -> Reading:
    """Put a reply together.

    Args:
        thought: reasoning that came before.
        noun: what a call is called in messages.
        ends_in_words: whether any final message ends the episode; if not, only an ending by itself does.

    Raises:
        Rejected: a call is none; with the ids of all calls, because an API wants each answered.
    """
    parts = list(parts)
    ids = tuple(part.id for part in parts if isinstance(part, Called) and part.id is not None)
    actions: list[Action] = []
    thoughts = [thought]
    closing: list[str] = []  # what was said since the last call
    num_calls = 0
    for part in parts:
        match part:
            case Said(reasoning=True):
                thoughts.append(part.text)
            case Said():
                closing.append(part.text)
            case Called():
                thoughts += closing
                closing = []
                num_calls += 1
                try:
                    actions += part.read()
                except ValueError as error:
                    raise Rejected(explain(error), where=f"{noun} {num_calls}", tool_call_ids=ids) from error
    last = "\n".join(closing)
    ending = read_ending(last) if ends_in_words and not num_calls else read_marked_ending(last)
    if ending is None:
        thoughts.append(last)
    else:
        actions.append(ending)
    return Reading(actions=actions, thought="\n".join(each for each in thoughts if each), tool_call_ids=ids)
