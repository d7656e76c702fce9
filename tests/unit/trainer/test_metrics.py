"""Metrics: reduced by their kind, one line a step, and no line twice after a resume."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from trainer.metrics import JsonlSink, MetricsLog, Reduced, TensorboardSink


def test_values_are_reduced_by_their_kind() -> None:
    reduced = Reduced()
    for total, weight in [(3.0, 1), (5.0, 3)]:
        reduced.mean("mean", total, weight)
        reduced.max("max", total)
        reduced.sum("sum", total)
    reduced.mean("nothing", 0.0, 0)
    assert reduced.values() == {"sum": 8.0, "mean": 2.0, "max": 5.0}


def test_a_resumed_file_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "deep" / "broken.jsonl"
    with MetricsLog([JsonlSink(whole)]) as log:
        for step in range(1, 6):
            log.write(step, {"loss": 1 / step})
    with MetricsLog([JsonlSink(broken)]) as log:
        for step in range(1, 5):
            log.write(step, {"loss": 1 / step})
    with broken.open("a") as file:
        file.write('{"step": 5, "lo')
    with MetricsLog([JsonlSink(broken, resume_step=2)]) as log:
        for step in range(3, 6):
            log.write(step, {"loss": 1 / step})
    assert broken.read_text() == whole.read_text()
    assert [json.loads(line)["step"] for line in whole.read_text().splitlines()] == [1, 2, 3, 4, 5]


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install '.[train]'")
    accumulators = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    with MetricsLog([TensorboardSink(tmp_path)]) as log:
        log.write(1, {"loss": 0.5, "lr": 1e-3})
        log.write(2, {"loss": 0.25})
    events = accumulators.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
