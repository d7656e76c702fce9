"""What a dialect is: one model family's way of writing actions, read and written back.

::

    model's text --parse(view)--> ParsedTurn: actions, or one ParseError   (never an exception)
    action --render(view)--> text the same dialect parses to that action   (but for its declared losses)

Guarantees, kept by `read_turn` for every dialect:

* `parse` answers any string within the limits below; nothing is evaluated.
* A turn is all or nothing: where it has an error it has no actions.
* `Done`, `Infeasible` and `Answer` come last or are an error.
* A point outside the picture shown to the model is an error, never moved to the edge (`view`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from sandbox.actions import Action, is_terminal
from sandbox.dialects.view import View

__all__ = [
    "MAX_ACTIONS",
    "MAX_INPUT",
    "Dialect",
    "Inexpressible",
    "ParseError",
    "ParsedTurn",
    "Reading",
    "Rejected",
    "View",
    "explain",
    "read_turn",
    "result_text",
]

MAX_INPUT = 65_536
"""Characters of model output that a dialect reads; more is an error."""
MAX_ACTIONS = 200
"""Actions of one turn; more is an error."""

MAX_MESSAGE = 400
"""Characters of a parse error's message, which may quote the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseError:
    """Why a text is no turn, in words that teach its writer."""

    message: str
    where: str
    """The place in the text, e.g. `line 3`; empty when it is the text as a whole."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedTurn:
    """A model's output, understood. Exactly one of `actions` and `error` says something."""

    actions: tuple[Action, ...]
    error: ParseError | None
    thought: str
    """What the model wrote around its actions; empty on an error."""
    tool_call_ids: tuple[str, ...] = ()
    """Ids of the tool calls in the output, also of one that was not understood: an API wants each answered."""
    raw: str
    """The text as it was given."""


class Dialect(Protocol):
    """One model family's way of writing actions."""

    @property
    def name(self) -> str:
        """The name that a harness gives to choose it."""
        ...

    @property
    def lossy(self) -> Mapping[str, str]:
        """What `render` cannot say exactly: action kind (or `point`) -> what becomes of it.

        What cannot be said at all, so that `render` raises `Inexpressible`, is told with the words "cannot be written".
        """
        ...

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read a model's output. Never raises."""
        ...

    def render(self, action: Action, view: View) -> str:
        """Write one action.

        Raises:
            Inexpressible: the dialect has no words for it; `lossy` says so.
            ValueError: the action's point lies outside the view's screen.
        """
        ...

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told when its turn was not understood, or when the desktop refused an action (the text).

        Args:
            tool_call_ids: those of the turn.
        """
        ...

    def system_prompt_fragment(self, view: View) -> str:
        """The part of a system prompt that teaches this dialect."""
        ...

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """The tool definition that an API is given, or None for a dialect of plain text."""
        ...


class Rejected(ValueError):
    """Raised inside a dialect's reader to refuse the text; `read_turn` turns it into a `ParseError`."""

    def __init__(self, message: str, *, where: str = "", tool_call_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.tool_call_ids = tool_call_ids


class Inexpressible(ValueError):
    """An action that a dialect has no words for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a dialect's reader found."""

    actions: Sequence[Action]
    thought: str = ""
    tool_call_ids: tuple[str, ...] = ()


def read_turn(text: str, read: Callable[[str], Reading]) -> ParsedTurn:
    """Run a dialect's reader and keep the promises that all dialects share.

    Args:
        read: raises `Rejected`, or any ValueError whose message teaches, for text that is no turn.
    """
    ids: tuple[str, ...] = ()
    try:
        if len(text) > MAX_INPUT:
            raise Rejected(f"the reply has {len(text)} characters; at most {MAX_INPUT} are read")
        reading = read(text)
        ids = reading.tool_call_ids
        if not reading.actions:
            raise Rejected("there is no action in the reply")
        if len(reading.actions) > MAX_ACTIONS:
            raise Rejected(f"the reply has {len(reading.actions)} actions; at most {MAX_ACTIONS} fit into one turn")
        for action in reading.actions[:-1]:
            if is_terminal(action):
                raise Rejected(f"{action.kind} ends the episode, so nothing can follow it")
    except (ValueError, RecursionError) as error:
        refused = _refusal(error)
        failure = ParseError(message=_shortened(refused.message), where=refused.where)
        return ParsedTurn(actions=(), error=failure, thought="", tool_call_ids=refused.tool_call_ids or ids, raw=text)
    return ParsedTurn(
        actions=tuple(reading.actions),
        error=None,
        thought=reading.thought,
        tool_call_ids=reading.tool_call_ids,
        raw=text,
    )


def _refusal(error: ValueError | RecursionError) -> Rejected:
    if isinstance(error, RecursionError):
        return Rejected("the reply is nested too deeply")
    return error if isinstance(error, Rejected) else Rejected(explain(error))


def explain(error: ValueError) -> str:
    """The first complaint of an error in one line; for pydantic's with the field it is about."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    field = next((str(part) for part in reversed(first["loc"]) if isinstance(part, str)), "")
    return message if first["type"] == "value_error" or not field else f"{field}: {message}"


def result_text(error: ParseError | str) -> str:
    """What went wrong, in words that every dialect uses."""
    if isinstance(error, ParseError):
        return f"Your last reply was not understood and nothing was done. {error}"
    return f"An action was refused: {error}"


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
