"""The map of the frontier, drawn: in the terminal, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.output import table

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["draw_map", "map_parts"]

STATE_COLORS = {
    "FRONTIER": "green",
    "MONITOR": "blue",
    "EASY": "cyan",
    "QUARANTINE": "yellow",
    "BROKEN": "red",
}
SHADES = " ░▒▓█"
CELLS_SHOWN = 20


def map_parts(shown: dict[str, Any]) -> list[RenderableType]:
    """The map as text: counts per state, tasks by success and uncertainty, and the cells.

    Args:
        shown: from `frontier.view.frontier_map`.
    """
    from rich.markup import escape

    states = "   ".join(f"[{STATE_COLORS[name]}]{name}[/] {number}" for name, number in shown["states"].items())
    cells = sorted(shown["cells"], key=lambda cell: -cell["tasks"])
    rows = [
        (
            escape(cell["cell"]) or "[dim]none[/dim]",
            str(cell["tasks"]),
            "" if cell["success"] is None else f"{cell['success']:.2f}",
            f"{cell['drift']:+.2f}",
            *[str(number) if number else "[dim]·[/dim]" for number in cell["states"].values()],
        )
        for cell in cells[:CELLS_SHOWN]
    ]
    columns = ["Cell", ">Tasks", ">Success", ">Drift", *[f">{name.lower()}" for name in shown["states"]]]
    parts: list[RenderableType] = [states, "", *_grid(shown), "", table(columns, rows)]
    if len(cells) > CELLS_SHOWN:
        parts.append(f"[dim]and {len(cells) - CELLS_SHOWN} smaller cells; --json has them all[/dim]")
    if shown["refill"]:
        parts += ["", f"[yellow]![/yellow] {shown['refill']}"]
    return parts


def draw_map(shown: dict[str, Any], path: Path) -> None:
    """Write the map as a PNG."""
    from PIL import Image, ImageDraw, ImageFont

    grid, side, left, top = shown["grid"], 56, 110, 60
    columns, rows = len(grid[0]), len(grid)
    image = Image.new("RGB", (left + columns * side + 40, top + rows * side + 90), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(14)
    small = ImageFont.load_default(12)
    counts = "   ".join(f"{name} {number}" for name, number in shown["states"].items())
    pen.text((16, 14), f"Tasks at version {shown['version']}", fill="black", font=font)
    pen.text((16, 34), counts, fill="#444444", font=small)
    most = max(1, *(number for row in grid for number in row))
    for r, row in enumerate(grid):
        y = top + (rows - 1 - r) * side
        pen.text((16, y + side // 2 - 8), _span(shown["uncertainty_edges"], r), fill="#444444", font=small)
        for c, number in enumerate(row):
            x = left + c * side
            # Square roots, so that one task still shows beside a thousand.
            depth = (number / most) ** 0.5
            color = tuple(round(255 - depth * (255 - end)) for end in (24, 90, 157))
            pen.rectangle((x, y, x + side - 2, y + side - 2), fill=color, outline="#dddddd")
            if number:
                ink = "white" if depth > 0.5 else "black"
                pen.text((x + side // 2, y + side // 2), str(number), fill=ink, font=small, anchor="mm")
    for c in range(columns + 1):
        x = left + c * side
        pen.text((x, top + rows * side + 12), f"{c / columns:.1f}", fill="#444444", font=small, anchor="mm")
    base = top + rows * side
    pen.text((left + columns * side // 2, base + 36), "success (posterior mean)", fill="black", font=font, anchor="mm")
    pen.text((16, base + 60), "rows: standard deviation of the posterior", fill="#444444", font=small)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, "PNG")


def _grid(shown: dict[str, Any]) -> list[str]:
    """The two-dimensional histogram, the most uncertain tasks on top."""
    grid = shown["grid"]
    most = max(1, *(number for row in grid for number in row))
    lines = ["[dim]uncertainty[/dim]"]
    for r in reversed(range(len(grid))):
        blocks = ""
        for number in grid[r]:
            shade = SHADES[0 if not number else 1 + round((number / most) ** 0.5 * (len(SHADES) - 2))]
            blocks += f"{number if number else '·':>5}{shade}"
        lines.append(f"[dim]{_span(shown['uncertainty_edges'], r):>11}[/dim] {blocks}")
    ticks = "".join(f"{c / len(grid[0]):<6.1f}" for c in range(len(grid[0])))
    return [*lines, f"[dim]{'success':>11} {ticks}1.0[/dim]"]


def _span(edges: list[float], r: int) -> str:
    return f"{edges[r]:.2f}-{edges[r + 1]:.2f}"
