"""Reading a TOML file into a frozen model, with messages that say what to change.

An unknown key is refused and the nearest right one named; every other mistake names its key and its value.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["ConfigError", "load_toml", "nearest", "parse_toml"]

M = TypeVar("M", bound=BaseModel)


class ConfigError(ValueError):
    """A configuration that cannot be used; one line per mistake."""


def load_toml(model: type[M], path: Path) -> M:
    """Read a TOML file into a model.

    Raises:
        ConfigError: the file is not there, not TOML, or not what the model allows.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return parse_toml(model, text, source=str(path))


def parse_toml(model: type[M], text: str, *, source: str = "configuration") -> M:
    """Read TOML text into a model; `source` names it in messages.

    Raises:
        ConfigError: the text is not TOML, or not what the model allows.
    """
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error
    except ValidationError as error:
        lines = [f"  {_explain(model, details)}" for details in error.errors()]
        raise ConfigError("\n".join([f"{source} cannot be used:", *lines])) from error


def nearest(word: str, known: list[str]) -> str:
    """A hint for a word that is not known: the nearest one, or else all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known)) or 'none'}"


def _explain(model: type[BaseModel], details: ErrorDetails) -> str:
    path = details["loc"]
    key = ".".join(str(part) for part in path)
    if details["type"] == "extra_forbidden":
        return f"{key}: there is no such key; {nearest(str(path[-1]), _keys(model, path[:-1]))}"
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "missing" or not path:
        return f"{key}: {message}" if key else message
    return f"{key} = {details['input']!r}: {message}"


def _keys(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed at a path of nested models."""
    for part in path:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field is not None else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
