"""What a dialect is: one model family's way of writing actions, read and written back.

::

    model's text --parse(view)--> ParsedTurn: actions, or one ParseError   (never an exception)
    action --render(view)--> text the same dialect parses to that action   (but for its declared losses)

Guarantees, kept by `read_turn` for every dialect:

* `parse` answers any string within the limits below; nothing is evaluated.
* A turn is all or nothing: where it has an error it has no actions.
* `Done`, `Infeasible` and `Answer` come last or are an error.
* A point outside the picture shown to the model is an error, never moved to the edge: a silent correction would teach
  the policy that it was right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from sandbox.actions import Action, Point, is_terminal

__all__ = [
    "MAX_ACTIONS",
    "MAX_INPUT",
    "Dialect",
    "ParseError",
    "ParsedTurn",
    "Reading",
    "Rejected",
    "Space",
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

Space = Literal["screen", "shown"]
"""Whose pixels a coordinate counts: the desktop's screen, or the picture shown to the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """How the model sees the screen.

    A coordinate counts pixels from the top left and a fraction lies inside its pixel (12.7 is pixel 12). A pixel maps
    to the pixel of the other space that contains its centre. So from the coarser space to the finer and back is the
    identity, and the other way round a point moves by at most half a pixel of the coarser space.
    """

    screen: tuple[int, int]
    """Width and height of the desktop's screen, pixels."""
    shown: tuple[int, int]
    """Width and height of the picture that the model sees, pixels."""

    def __post_init__(self) -> None:
        if min(*self.screen, *self.shown) < 1:
            raise ValueError(f"a view needs sizes of at least one pixel, got {self.screen} and {self.shown}")

    @classmethod
    def unscaled(cls, width: int, height: int) -> View:
        """The model sees every pixel of the screen."""
        return cls(screen=(width, height), shown=(width, height))

    def size(self, space: Space) -> tuple[int, int]:
        """Width and height of a space, pixels."""
        return self.screen if space == "screen" else self.shown

    def point(self, x: float, y: float, *, space: Space) -> Point:
        """The screen's pixel for a coordinate.

        Raises:
            ValueError: the coordinate lies outside its space; the message names the limits.
        """
        width, height = self.size(space)
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(
                f"the point ({_number(x)}, {_number(y)}) is outside the screen; "
                f"x goes from 0 to {width - 1} and y from 0 to {height - 1}"
            )
        pixel = _map((math.floor(x), math.floor(y)), (width, height), self.screen)
        return Point(x=pixel[0], y=pixel[1])

    def place(self, point: Point, *, space: Space) -> tuple[int, int]:
        """Where a pixel of the screen lies in a space; the inverse of `point` up to the coarser grid.

        Raises:
            ValueError: the point lies outside the screen.
        """
        if point.x >= self.screen[0] or point.y >= self.screen[1]:
            raise ValueError(
                f"the point ({point.x}, {point.y}) is outside the {self.screen[0]}x{self.screen[1]} screen"
            )
        return _map((point.x, point.y), self.screen, self.size(space))


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
    """Ids of the tool calls that the actions came in, for dialects that have them."""
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
        """What `render` cannot say exactly: action kind (or `point`) -> what becomes of it."""
        ...

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read a model's output. Never raises."""
        ...

    def render(self, action: Action, view: View) -> str:
        """Write one action.

        Raises:
            ValueError: the action's point lies outside the view's screen.
        """
        ...

    def render_result(self, error: ParseError | str) -> str:
        """What the model is told when its turn was not understood, or when the desktop refused an action (the text)."""
        ...

    def system_prompt_fragment(self, view: View) -> str:
        """The part of a system prompt that teaches this dialect."""
        ...

    def tool_schema(self) -> dict[str, Any] | None:
        """The tool definition that an API is given, or None for a dialect of plain text."""
        ...


class Rejected(ValueError):
    """Raised inside a dialect's reader to refuse the text; `read_turn` turns it into a `ParseError`."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where


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
    try:
        if len(text) > MAX_INPUT:
            raise Rejected(f"the reply has {len(text)} characters; at most {MAX_INPUT} are read")
        reading = read(text)
        if not reading.actions:
            raise Rejected("there is no action in the reply")
        if len(reading.actions) > MAX_ACTIONS:
            raise Rejected(f"the reply has {len(reading.actions)} actions; at most {MAX_ACTIONS} fit into one turn")
        for action in reading.actions[:-1]:
            if is_terminal(action):
                raise Rejected(f"{action.kind} ends the episode, so nothing can follow it")
    except ValueError as error:
        refused = error if isinstance(error, Rejected) else Rejected(explain(error))
        failure = ParseError(message=_shortened(refused.message), where=refused.where)
        return ParsedTurn(actions=(), error=failure, thought="", raw=text)
    return ParsedTurn(
        actions=tuple(reading.actions),
        error=None,
        thought=reading.thought,
        tool_call_ids=reading.tool_call_ids,
        raw=text,
    )


def explain(error: ValueError) -> str:
    """The first complaint of an error in one line; for pydantic's with the field it is about."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    field = next((str(part) for part in reversed(first["loc"]) if isinstance(part, str)), "")
    return message if first["type"] == "value_error" or not field else f"{field}: {message}"


def result_text(error: ParseError | str) -> str:
    """How a dialect of plain text tells the model what went wrong."""
    if isinstance(error, ParseError):
        return f"Your last reply was not understood and nothing was done. {error}"
    return f"An action was refused: {error}"


def _map(pixel: tuple[int, int], source: tuple[int, int], target: tuple[int, int]) -> tuple[int, int]:
    x, y = ((2 * at + 1) * to // (2 * of) for at, of, to in zip(pixel, source, target, strict=True))
    return x, y


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."


def _number(value: float) -> str:
    return f"{value:.10g}"
