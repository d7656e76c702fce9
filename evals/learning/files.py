"""Writing a report of a learning run into a folder: a page, Markdown, and pictures."""

from __future__ import annotations

from pathlib import Path

from evals.learning.charts import CHARTS
from evals.learning.film_picture import film_picture
from evals.learning.frontier_chart import frontier_chart
from evals.learning.markdown import render_learning_markdown
from evals.learning.page import render_learning_html
from evals.learning.report import LearningReport

__all__ = ["write_learning_report"]


def write_learning_report(report: LearningReport, folder: Path) -> Path:
    """Write `report.html`, `report.md` and their pictures; return the page's path.

    Pictures are `learning`, `apps`, `skills`, `gates`, `frontier`, `time` and `film-N`, each `.png`; what there is
    nothing to draw of is left out. The page needs none of them. Files of an earlier report are written over.

    Args:
        folder: made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, bytes] = {}
    for name, draw in (*CHARTS.items(), ("frontier", frontier_chart)):
        canvas = draw(report)
        if canvas is not None:
            pictures[name] = canvas.png()
    for number, each in enumerate(report.films, start=1):
        pictures[f"film-{number}"] = film_picture(each.film, title=each.title)
    for name, data in pictures.items():
        (folder / f"{name}.png").write_bytes(data)
    (folder / "report.md").write_text(render_learning_markdown(report, pictures=set(pictures)), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(render_learning_html(report), encoding="utf-8")
    return page
