"""The report of a whole learning run: hand over a `LearningRun`, build, write.

::

    LearningRun -> build_learning_report -> write_learning_report -> report.html, report.md, *.png
"""

from evals.learning.files import write_learning_report
from evals.learning.report import LearningReport, build_learning_report
from evals.learning.run import (
    CurvePoint,
    Evaluation,
    HeldOutTask,
    LearningRun,
    Synthesis,
    TimeUse,
    training_curve,
)

__all__ = [
    "CurvePoint",
    "Evaluation",
    "HeldOutTask",
    "LearningReport",
    "LearningRun",
    "Synthesis",
    "TimeUse",
    "build_learning_report",
    "training_curve",
    "write_learning_report",
]
