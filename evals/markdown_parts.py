"""Pieces of Markdown that reports share, in which no text of a task or a model means anything to Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evals.film import Film

__all__ = ["film_lines", "markdown_table", "plain", "short"]

MAX_NAME = 80


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are made plain here."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(plain(cell) for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Text that means nothing to Markdown inside a table or a heading."""
    for special in "\\`*_<>[]|#":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.split())


def short(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


def film_lines(film: Film) -> str:
    """An attempt in words: what was asked, how it ended, what was done turn by turn."""
    told = f"{plain(film.instruction)}\n\n**{film.outcome}** ({film.stop_reason}, turns: {film.num_turns})"
    done = "\n".join(
        f"* {frame.title}: {_thought(frame.thought)}{_code(frame.did)}{_note(frame.note)}" for frame in film.frames
    )
    return f"{told}\n\n{done}"


def _code(text: str) -> str:
    lines = [line.replace("`", "'") for line in text.splitlines()]
    return ", ".join(f"`{short(line)}`" for line in lines if line) or "nothing"


def _thought(thought: str) -> str:
    return f"“{plain(short(thought))}”, " if thought else ""


def _note(note: str) -> str:
    return f" ({plain(note)})" if note else ""
