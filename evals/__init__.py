"""Outcomes of attempts: counted, compared and reported."""

from evals.markdown import render_markdown
from evals.outcomes import Comparison, OutcomeCount, OutcomeTable, compare, summarize
from evals.page import render_html
from evals.report import Report, build_report
from evals.stats import Interval, mcnemar_exact, sign_flip_test, wilson_interval

__all__ = [
    "Comparison",
    "Interval",
    "OutcomeCount",
    "OutcomeTable",
    "Report",
    "build_report",
    "compare",
    "mcnemar_exact",
    "render_html",
    "render_markdown",
    "sign_flip_test",
    "summarize",
    "wilson_interval",
]
