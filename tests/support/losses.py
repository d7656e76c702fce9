"""What a dialect's declared losses make of an action, stated apart from the dialects' own code."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.actions import (
    Action,
    Answer,
    ButtonDown,
    ButtonUp,
    Click,
    Done,
    Drag,
    Infeasible,
    KeyDown,
    KeyUp,
    Move,
    Press,
    Screenshot,
    Scroll,
    Wait,
)

__all__ = ["lost"]


def lost(name: str, action: Action) -> tuple[Action, ...] | None:
    """The actions that come back; None where the dialect has no words for this one."""
    family = next(family for family in _FAMILIES if name.startswith(family))
    if name == "anthropic-20241022":
        family = name
    return _FAMILIES[family](action)


def _compact(action: Action) -> tuple[Action, ...] | None:
    return (action,)


def _pyautogui(action: Action) -> tuple[Action, ...] | None:
    match action:
        case Answer():
            return (Done(),)
        case Infeasible():
            return (Infeasible(),)
        case Drag(path=(_, _, _, *_)):
            return _held(action, *_strokes(action))
        case Scroll() if action.dx and action.dy:
            return _held(action, *_two_scrolls(Scroll(point=action.point, dx=action.dx, dy=action.dy)))
    return (action,)


def _computer13(action: Action) -> tuple[Action, ...] | None:
    if getattr(action, "button", "left") in ("back", "forward"):
        return None
    match action:
        case Answer():
            return (Done(),)
        case Infeasible():
            return (Infeasible(),)
        case Screenshot():
            return (Wait(seconds=2),)
        case Wait(seconds=seconds):
            return (Wait(seconds=2),) * _times(seconds, 2)
        case Click(modifiers=(_, *_)):
            return _held(action, Click(point=action.point, button=action.button, clicks=action.clicks))
        case ButtonDown() | ButtonUp() if action.point is not None:
            return (Move(point=action.point), type(action)(button=action.button))
        case Drag(path=path, button=button):
            plain = len(path) < 3 and button == "left"
            return _held(action, *([Drag(path=path)] if plain else _strokes(action)))
        case Scroll():
            move = [] if action.point is None else [Move(point=action.point)]
            return _held(action, *move, Scroll(dx=action.dx, dy=action.dy))
        case Press(keys=keys, hold_s=seconds) if seconds:
            return _around(keys, (Wait(seconds=2),) * _times(seconds, 2))
    return (action,)


def _openai(action: Action) -> tuple[Action, ...] | None:
    match action:
        case ButtonDown() | ButtonUp() | KeyDown() | KeyUp():
            return None
        case Press(hold_s=seconds) if seconds:
            return None
        case Drag(button=button) if button != "left":
            return None
        case Click(clicks=3) | Click(clicks=2, button="middle" | "right" | "back" | "forward"):
            return _single(action)
        case Wait(seconds=seconds):
            return (Wait(seconds=1),) * _times(seconds, 1)
    return (action,)


def _anthropic(action: Action) -> tuple[Action, ...] | None:
    match action:
        case KeyDown() | KeyUp() | Click(button="back" | "forward"):
            return None
        case ButtonDown() | ButtonUp():
            if action.button != "left":
                return None
            return (action,) if action.point is None else (Move(point=action.point), type(action)())
        case Drag() if action.button != "left" or len(action.path) > 2:
            return None
        case Click(button="middle" | "right", clicks=2 | 3):
            return _single(action)
        case Scroll() if action.dx and action.dy:
            return _two_scrolls(action)
    return (action,)


def _anthropic_20241022(action: Action) -> tuple[Action, ...] | None:
    match action:
        case Scroll() | ButtonDown() | ButtonUp() | Click(modifiers=(_, *_)) | Drag(modifiers=(_, *_)):
            return None
        case Press(hold_s=seconds) if seconds:
            return None
        case Wait(seconds=seconds):
            return (Screenshot(),) * _times(seconds, 2)
        case Click():
            if action.button in ("back", "forward"):
                return None
            bare = Click(button=action.button, clicks=action.clicks)
            moved = [] if action.point is None else [Move(point=action.point)]
            return (*moved, *((bare,) if (action.button, action.clicks) == ("left", 2) else _single(bare)))
        case Drag(path=(start, end), button="left"):
            return (Move(point=start), Drag(path=(end,)))
    return _anthropic(action)


def _uitars(action: Action) -> tuple[Action, ...] | None:
    match action:
        case ButtonDown() | ButtonUp() | Click(button="middle" | "back" | "forward"):
            return None
        case Drag() if action.button != "left" or len(action.path) != 2:
            return None
        case Screenshot():
            return (Wait(seconds=5),)
        case Wait(seconds=seconds):
            return (Wait(seconds=5),) * _times(seconds, 5)
        case Click():
            plain = Click(point=action.point, button=action.button, clicks=action.clicks)
            joined = action.clicks == 1 or (action.button, action.clicks) == ("left", 2)
            return _held(action, *((plain,) if joined else _single(plain)))
        case Drag(path=path):
            return _held(action, Drag(path=path))
        case Scroll(dx=0, dy=0):
            return None if action.point is None else _held(action, Move(point=action.point))
        case Scroll():
            parts = []
            if action.dy:
                turn = Scroll(point=action.point, dy=5 if action.dy > 0 else -5)
                parts += [turn] * _times(abs(action.dy), 5)
            if action.dx:
                turn = Scroll(point=action.point, dx=5 if action.dx > 0 else -5)
                parts += [turn] * _times(abs(action.dx), 5)
            return _held(action, *parts)
        case Press(keys=keys, hold_s=seconds) if seconds:
            return _around(keys, (Wait(seconds=5),) * _times(seconds, 5))
    return (action,)


def _qwen(action: Action) -> tuple[Action, ...] | None:
    match action:
        case ButtonDown() | ButtonUp() | KeyDown() | KeyUp() | Click(button="back" | "forward"):
            return None
        case Click(modifiers=(_, *_)) | Drag(modifiers=(_, *_)) | Scroll(modifiers=(_, *_)):
            return None
        case Press(hold_s=seconds) if seconds:
            return None
        case Drag() if action.button != "left" or len(action.path) > 2:
            return None
        case Click(button="middle" | "right", clicks=2 | 3):
            return _single(action)
        case Scroll() if action.dx and action.dy:
            return _two_scrolls(action)
        case Screenshot():
            return (Wait(seconds=0),)
    return (action,)


def _bytebot(action: Action) -> tuple[Action, ...] | None:
    if getattr(action, "button", "left") in ("back", "forward"):
        return None
    match action:
        case Drag(path=(_,)):
            return _held(action, *_strokes(action))
        case Scroll() if action.dx and action.dy:
            return _two_scrolls(action)
        case Press(keys=keys, hold_s=seconds) if seconds:
            return _around(keys, (_milliseconds(seconds),))
        case Wait(seconds=seconds):
            return (_milliseconds(seconds),)
    return (action,)


def _browsergym(action: Action) -> tuple[Action, ...] | None:
    if getattr(action, "button", "left") in ("back", "forward"):
        return None
    match action:
        case Click(point=None) | ButtonDown(point=None) | ButtonUp(point=None) | Drag(path=(_,)):
            return None
        case Click(point=point, button=button, clicks=clicks):
            plain = Click(point=point, button=button, clicks=clicks)
            return _held(action, *(_single(plain) if clicks == 3 else (plain,)))
        case Drag(path=(_, _) as path, button="left"):
            return _held(action, Drag(path=path))
        case Drag(path=(start, *middle, end), button=button):
            moves = (Move(point=point) for point in middle)
            return _held(action, ButtonDown(point=start, button=button), *moves, ButtonUp(point=end, button=button))
        case Scroll():
            move = [] if action.point is None else [Move(point=action.point)]
            return _held(action, *move, Scroll(dx=action.dx, dy=action.dy))
        case Press(keys=keys, hold_s=seconds) if seconds:
            return _around(keys, (_milliseconds(seconds),))
        case Wait(seconds=seconds):
            return (_milliseconds(seconds),)
        case Screenshot():
            return (Wait(seconds=0),)
    return (action,)


def _cua_bench(action: Action) -> tuple[Action, ...] | None:
    match action:
        case ButtonDown() | ButtonUp() | KeyDown() | KeyUp():
            return None
        case Click(point=None) | Click(button="back" | "forward") | Click(modifiers=(_, *_)):
            return None
        case Click():
            joined = action.clicks == 1 or (action.button, action.clicks) == ("left", 2)
            return (action,) if joined else _single(action)
        case Drag() if action.button != "left" or len(action.path) != 2 or action.modifiers:
            return None
        case Scroll(modifiers=(_, *_)):
            return None
        case Scroll(dx=dx, dy=dy):
            turns = _two_scrolls(Scroll(dx=dx, dy=dy)) if dx and dy else (Scroll(dx=dx, dy=dy),)
            return turns if action.point is None else (Move(point=action.point), *turns)
        case Press(hold_s=seconds) if seconds:
            return None
        case Screenshot():
            return (Wait(seconds=0),)
        case Infeasible():
            return (Infeasible(),)
        case Answer():
            return (Done(),)
    return (action,)


_FAMILIES = {
    "bytebot": _bytebot,
    "browsergym": _browsergym,
    "cua-bench": _cua_bench,
    "compact": _compact,
    "pyautogui": _pyautogui,
    "computer13": _computer13,
    "openai": _openai,
    "anthropic": _anthropic,
    "anthropic-20241022": _anthropic_20241022,
    "uitars": _uitars,
    "qwen": _qwen,
}


def _single(action: Click) -> tuple[Action, ...]:
    one = Click(point=action.point, button=action.button, modifiers=action.modifiers)
    return (one,) * action.clicks


def _two_scrolls(action: Scroll) -> tuple[Action, ...]:
    upright = Scroll(point=action.point, dy=action.dy, modifiers=action.modifiers)
    return (upright, Scroll(point=action.point, dx=action.dx, modifiers=action.modifiers))


def _strokes(action: Drag) -> list[Action]:
    moves: list[Action] = [Move(point=point) for point in action.path]
    down, up = ButtonDown(button=action.button), ButtonUp(button=action.button)
    return [down, *moves, up] if len(moves) == 1 else [moves[0], down, *moves[1:], up]


def _held(action: Click | Drag | Scroll, *body: Action) -> tuple[Action, ...]:
    return _around(action.modifiers, body)


def _around(keys: tuple[str, ...], body: Iterable[Action]) -> tuple[Action, ...]:
    return (*(KeyDown(key=key) for key in keys), *body, *(KeyUp(key=key) for key in reversed(keys)))


def _milliseconds(seconds: float) -> Wait:
    return Wait(seconds=round(seconds * 1000) / 1000)


def _times(total: float, each: float) -> int:
    return max(1, int(total / each + 0.5))
