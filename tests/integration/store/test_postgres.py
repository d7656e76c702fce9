"""The catalog on PostgreSQL.

Needs `FRONTDESK_TEST_POSTGRES`, the URL of an empty database that these tests may fill and empty again, and psycopg.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from store.blobs import BlobStore
from store.catalog import Catalog, OutcomeCount, ProofKey
from store.database import make_engine
from store.errors import Ambiguous, CatalogError, ConstraintViolated, TrajectoryConflict
from store.migrations import alembic_config
from store.tables import metadata
from store.trajectories import TrajectoryStore
from tests.support.trajectories import make_bundle_row, make_episode_row, make_proof_row, make_trajectory

URL = os.environ.get("FRONTDESK_TEST_POSTGRES", "")
pytestmark = pytest.mark.skipif(not URL, reason="FRONTDESK_TEST_POSTGRES names no database")


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog.open(URL) as opened:
        yield opened
    engine = make_engine(URL)
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    engine.dispose()


@pytest.mark.usefixtures("catalog")
def test_migrations_make_exactly_the_tables() -> None:
    engine = make_engine(URL)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert len(inspect(connection).get_check_constraints("episode")) == 3
    engine.dispose()


def test_bundles_and_proofs(catalog: Catalog) -> None:
    document = {"b": 1, "a": ["é", 1.0, None]}
    assert catalog.add_bundle(make_bundle_row("aa1", apps=["files", "mousepad"], document=document))
    assert not catalog.add_bundle(make_bundle_row("aa1", split="heldout"))
    catalog.add_bundle(make_bundle_row("aA2", apps=["file"]))
    assert list(catalog.bundle("aa").document) == ["b", "a"]
    assert [row.id for row in catalog.bundles(app="files", skill="edit")] == ["aa1"]
    with pytest.raises(Ambiguous):
        catalog.bundle("a")
    catalog.add_proof(make_proof_row("aa1", passed=False))
    catalog.add_proof(make_proof_row("aa1", passed=True))
    assert [proof.passed for proof in catalog.proofs("aa1")] == [True]
    key = ProofKey(image_digest="i", checks_version="1", gates_version="1")
    assert [row.id for row in catalog.bundles(proven=True, under=key)] == ["aa1"]
    assert [row.id for row in catalog.bundles(proven=False)] == ["aA2"]
    with pytest.raises(ConstraintViolated):
        catalog.add_proof(make_proof_row("nobody"))


@pytest.mark.parametrize(
    ("outcome", "reward"),
    [("infra_error", 0.0), ("fail", None), ("fail", float("nan")), ("pass", 1.1), ("fail", -0.1), ("error", 0.0)],
)
def test_dishonest_outcomes_are_refused(catalog: Catalog, outcome: str, reward: float | None) -> None:
    with pytest.raises(ConstraintViolated):
        catalog.add_episode(make_episode_row(outcome=outcome, reward=reward))
    catalog.add_episode(make_episode_row(outcome="infra_error", reward=None))
    assert catalog.outcomes() == [
        OutcomeCount(task_id="task", actor="oracle", num_pass=0, num_fail=0, num_infra_error=1)
    ]


def test_trajectories_are_committed_and_recovered(catalog: Catalog, tmp_path: Path) -> None:
    store = TrajectoryStore(tmp_path / "trajectories", BlobStore(tmp_path / "blobs"), catalog)
    trajectory = make_trajectory("ep-1", seed_env=2**63 - 1)
    store.commit(trajectory)
    store.commit(trajectory)
    with pytest.raises(TrajectoryConflict):
        store.commit(make_trajectory("ep-1"))
    assert store.load("ep-1") == trajectory
    assert store.recover().added == ()
    assert [row.id for row in catalog.episodes(limit=1)] == ["ep-1"]


def test_a_new_database_may_be_opened_by_many_at_once(catalog: Catalog) -> None:
    engine = make_engine(URL)
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    engine.dispose()
    start = threading.Barrier(6)
    errors: list[CatalogError] = []

    def work(number: int) -> None:
        start.wait()
        try:
            with Catalog.open(URL) as mine:
                mine.add_bundle(make_bundle_row("same"))
                mine.add_episode(make_episode_row(f"ep-{number}"))
        except CatalogError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(catalog.bundles()) == 1
    assert len(catalog.episodes()) == 6


def test_an_error_does_not_tell_the_password() -> None:
    with pytest.raises(CatalogError) as caught:
        Catalog.open("postgresql+psycopg://someone:secret-word@127.0.0.1:1/nowhere")
    assert "secret-word" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
