"""Numbers of a run: reduced by their kind, then written where people and programs read them.

A line of JSON for each step is always there; tensorboard is a second sink. Lines of steps after the one that a run
resumes from are taken away, so that the file of a resumed run is that of one that was never interrupted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

__all__ = ["JsonlSink", "MetricsLog", "MetricsSink", "Reduced", "TensorboardSink"]


class Reduced:
    """Collects values of one step. How a value is reduced is said where it is added."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._means: dict[str, tuple[float, float]] = {}
        self._maxima: dict[str, float] = {}

    def sum(self, name: str, value: float) -> None:
        """Add to a sum."""
        self._sums[name] = self._sums.get(name, 0.0) + value

    def mean(self, name: str, total: float, weight: float) -> None:
        """Add a total of so many values to a mean; a mean of nothing is left out."""
        before, count = self._means.get(name, (0.0, 0.0))
        self._means[name] = before + total, count + weight

    def max(self, name: str, value: float) -> None:
        """Raise a maximum."""
        self._maxima[name] = max(self._maxima.get(name, -math.inf), value)

    def values(self) -> dict[str, float]:
        """The reduced values."""
        means = {name: total / weight for name, (total, weight) in self._means.items() if weight > 0}
        return {**self._sums, **means, **self._maxima}


class MetricsSink(Protocol):
    """Where metrics go."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Keep one step's values."""
        ...

    def close(self) -> None:
        """Write out what is buffered. Idempotent."""
        ...


class JsonlSink:
    """One JSON object a line, written at once.

    Args:
        resume_step: lines of later steps, and a line that a crash cut off, are taken away first.
    """

    def __init__(self, path: Path, *, resume_step: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = _lines_until(path, resume_step)
        draft = path.with_name(path.name + ".tmp")
        draft.write_text("".join(kept), "utf-8")
        draft.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append a line."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorboardSink:
    """Event files for tensorboard.

    Args:
        resume_step: tensorboard hides what an earlier run wrote for later steps.
    """

    def __init__(self, directory: Path, *, resume_step: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        make: type = SummaryWriter
        self._writer = make(str(directory), purge_step=resume_step + 1 if resume_step else None)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add a scalar for each value."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class MetricsLog:
    """Writes to all sinks; closes them at the end of a `with` block."""

    def __init__(self, sinks: Sequence[MetricsSink]) -> None:
        self._sinks = sinks

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write one step's values to every sink."""
        for sink in self._sinks:
            sink.write(step, values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sink in self._sinks:
            sink.close()


def _lines_until(path: Path, last_step: int) -> list[str]:
    if not path.exists():
        return []
    kept = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if not line.endswith("\n") or json.loads(line)["step"] > last_step:
            break
        kept.append(line)
    return kept
