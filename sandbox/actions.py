"""The one canonical action type: what a policy does to a screen, in screen pixels.

Every dialect parses to these and renders from these; the probe executes only these. Points are integer pixels of the
desktop's screen with the origin at the top left. Scroll amounts are wheel clicks, positive up and right. Key names are
the canonical names of `sandbox.keys`. Terminal actions (`Done`, `Infeasible`, `Answer`) end an episode and never reach
the probe.

Guarantees: an `Action` that exists is well formed (pydantic refuses the rest), and `to_json` -> `parse_action` is the
identity.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from sandbox.keys import canonical_key

__all__ = [
    "ACTION_KINDS",
    "TERMINAL_KINDS",
    "Action",
    "Answer",
    "Button",
    "ButtonDown",
    "ButtonUp",
    "Click",
    "Done",
    "Drag",
    "Infeasible",
    "KeyDown",
    "KeyUp",
    "Move",
    "Point",
    "Press",
    "Screenshot",
    "Scroll",
    "TypeText",
    "Wait",
    "action_json",
    "is_terminal",
    "parse_action",
]

Button = Literal["left", "middle", "right", "back", "forward"]
MAX_TEXT = 20_000
MAX_WAIT_S = 60.0
MAX_SCROLL = 100


class Point(BaseModel):
    """A pixel of the screen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    x: int = Field(ge=0, le=32767)
    """Pixels from the left edge."""
    y: int = Field(ge=0, le=32767)
    """Pixels from the top edge."""


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _WithModifiers(_Action):
    modifiers: tuple[str, ...] = ()
    """Keys held while the action happens (canonical names, e.g. `ctrl`)."""

    @field_validator("modifiers")
    @classmethod
    def _canonical_modifiers(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(canonical_key(key) for key in keys)


class Move(_Action):
    """Move the pointer."""

    kind: Literal["move"] = "move"
    point: Point


class Click(_WithModifiers):
    """Press and release a button `clicks` times, at `point` or where the pointer is."""

    kind: Literal["click"] = "click"
    point: Point | None = None
    button: Button = "left"
    clicks: int = Field(default=1, ge=1, le=3)


class ButtonDown(_Action):
    """Press a button and keep it down."""

    kind: Literal["button_down"] = "button_down"
    point: Point | None = None
    button: Button = "left"


class ButtonUp(_Action):
    """Release a button."""

    kind: Literal["button_up"] = "button_up"
    point: Point | None = None
    button: Button = "left"


class Drag(_WithModifiers):
    """Press at the first point of `path`, move through the others, release at the last.

    A path of one point drags from where the pointer is.
    """

    kind: Literal["drag"] = "drag"
    path: tuple[Point, ...] = Field(min_length=1, max_length=500)
    button: Button = "left"


class Scroll(_WithModifiers):
    """Turn the wheel: `dx` clicks to the right, `dy` clicks up."""

    kind: Literal["scroll"] = "scroll"
    point: Point | None = None
    dx: int = Field(default=0, ge=-MAX_SCROLL, le=MAX_SCROLL)
    dy: int = Field(default=0, ge=-MAX_SCROLL, le=MAX_SCROLL)


class TypeText(_Action):
    """Type text exactly: any Unicode, with `\\n` as Return and `\\t` as Tab."""

    kind: Literal["type"] = "type"
    text: str = Field(min_length=1, max_length=MAX_TEXT)

    @field_validator("text")
    @classmethod
    def _typeable(cls, text: str) -> str:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        for position, char in enumerate(text):
            code = ord(char)
            if (code < 32 and char not in "\n\t") or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF:
                raise ValueError(f"character U+{code:04X} at position {position} has no key; only text can be typed")
        return text


class Press(_Action):
    """Press a chord: hold all keys in order, release them in reverse order."""

    kind: Literal["press"] = "press"
    keys: tuple[str, ...] = Field(min_length=1, max_length=8)
    hold_s: float = Field(default=0.0, ge=0, le=MAX_WAIT_S)
    """Seconds to hold the chord before releasing it."""

    @field_validator("keys")
    @classmethod
    def _canonical_keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(canonical_key(key) for key in keys)


class _OneKey(_Action):
    key: str

    @field_validator("key")
    @classmethod
    def _canonical(cls, key: str) -> str:
        return canonical_key(key)


class KeyDown(_OneKey):
    """Press one key and keep it down."""

    kind: Literal["key_down"] = "key_down"


class KeyUp(_OneKey):
    """Release one key."""

    kind: Literal["key_up"] = "key_up"


class Wait(_Action):
    """Do nothing for a while."""

    kind: Literal["wait"] = "wait"
    seconds: float = Field(default=1.0, ge=0, le=MAX_WAIT_S)


class Screenshot(_Action):
    """Only look: the next observation is taken without acting."""

    kind: Literal["screenshot"] = "screenshot"


class Done(_Action):
    """The policy claims that the task is done."""

    kind: Literal["done"] = "done"


class Infeasible(_Action):
    """The policy claims that the task cannot be done."""

    kind: Literal["infeasible"] = "infeasible"
    reason: str = ""


class Answer(_Action):
    """The policy ends with an answer in words."""

    kind: Literal["answer"] = "answer"
    text: str


Action = Annotated[
    Move
    | Click
    | ButtonDown
    | ButtonUp
    | Drag
    | Scroll
    | TypeText
    | Press
    | KeyDown
    | KeyUp
    | Wait
    | Screenshot
    | Done
    | Infeasible
    | Answer,
    Field(discriminator="kind"),
]

ACTION_KINDS: tuple[str, ...] = tuple(kind.model_fields["kind"].default for kind in get_args(get_args(Action)[0]))
"""Every kind of action."""
TERMINAL_KINDS = frozenset({"done", "infeasible", "answer"})
_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)


def parse_action(data: dict[str, Any]) -> Action:
    """Build an action from its JSON form.

    Raises:
        ValueError: the data is not an action; the message names the field.
    """
    return _ADAPTER.validate_python(data)


def action_json(action: Action) -> dict[str, Any]:
    """The JSON form of an action, defaults left out except the kind."""
    return {"kind": action.kind, **action.model_dump(mode="json", exclude_defaults=True)}


def is_terminal(action: Action) -> bool:
    """Whether the action ends the episode."""
    return action.kind in TERMINAL_KINDS
