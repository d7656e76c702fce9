"""Samplers in the catalog: state and history together, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Catalog, SamplerEventRow
from store.errors import CatalogError, NotFound


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as opened:
        yield opened


def event(task: str, version: int) -> SamplerEventRow:
    return SamplerEventRow(
        sampler="run-1", task_id=task, version=version, kind="transition", before="FRONTIER", after="EASY", reason="So."
    )


def test_state_and_history_are_kept(catalog: Catalog) -> None:
    assert catalog.samplers() == []
    with pytest.raises(NotFound, match="it has: none"):
        catalog.sampler("run-1")
    assert catalog.put_sampler("run-1", {"a": 1}, [event("t1", 1), event("t2", 2)]) == 1
    assert catalog.put_sampler("run-1", {"a": 2}, [event("t1", 3)], seen=1) == 2
    row = catalog.sampler("run-1")
    assert (row.state, row.version) == ({"a": 2}, 2)
    assert [found.version for found in catalog.sampler_events("run-1")] == [3, 2, 1]
    assert [found.version for found in catalog.sampler_events("run-1", task_id="t1", limit=1)] == [3]
    assert catalog.sampler_events("run-1", kind="jump") == []
    assert catalog.sampler_events("another") == []
    assert catalog.samplers() == ["run-1"]


def test_a_second_writer_is_refused_and_its_events_with_it(catalog: Catalog) -> None:
    catalog.put_sampler("run-1", {"a": 1}, [])
    catalog.put_sampler("run-1", {"a": 2}, [], seen=1)
    with pytest.raises(CatalogError, match="give each run its own"):
        catalog.put_sampler("run-1", {"a": 3}, [event("t1", 1)], seen=1)
    assert catalog.sampler("run-1").state == {"a": 2}
    assert catalog.sampler_events("run-1") == []
