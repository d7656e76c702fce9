from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from store.catalog import Catalog, OutcomeCount, ProofKey
from store.errors import Ambiguous, CatalogError, ConstraintViolated, NotFound, SchemaTooNew, TrajectoryConflict
from store.tables import BundleRow, RunRow, SamplerStateRow
from tests.support.trajectories import make_bundle_row, make_episode_row, make_proof_row


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'catalog.sqlite'}"


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    with Catalog.open(url) as opened:
        yield opened


def open_files(url: str) -> int:
    """How many descriptors this process has on a catalog's file."""
    name = Path(url).name
    links = (path for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum(name in str(path.readlink()) for path in links)


def ids(rows: list[BundleRow]) -> list[str]:
    return [row.id for row in rows]


def test_a_bundle_is_stored_once_and_as_it_was(catalog: Catalog, url: str) -> None:
    document = {"text": 'é "quoted" \u2603', "list": [1, 2.5, None, {"deep": True}]}
    assert catalog.add_bundle(make_bundle_row("abc", document=document))
    assert not catalog.add_bundle(make_bundle_row("abc", split="heldout", name="another"))
    with Catalog.open(url) as again:
        row = again.bundle("abc")
    assert (row.document, row.apps, row.split, row.name) == (document, ["mousepad"], "train", "task-abc")
    assert row.feasible is True


def test_a_bundle_is_found_by_id_then_name_then_prefix(catalog: Catalog) -> None:
    for bundle_id, name in (("aa11", "first"), ("aa22", "second"), ("bb11", "aa"), ("cc11", "second"), ("cC22", "x%")):
        catalog.add_bundle(make_bundle_row(bundle_id, name=name))
    assert catalog.bundle("aa11").id == "aa11"
    assert catalog.bundle("first").id == "aa11"
    assert catalog.bundle("aa2").id == "aa22"
    assert catalog.bundle("aa").id == "bb11"
    assert catalog.bundle("cc").id == "cc11"  # case counts
    with pytest.raises(Ambiguous, match=r"'second' fits more than one task: aa22, cc11\. Give more of the id"):
        catalog.bundle("second")
    with pytest.raises(Ambiguous, match="aa11, aa22") as caught:
        catalog.bundle("a")
    assert caught.value.ids == ("aa11", "aa22")
    for ref in ("dd", "", "%", "a_1"):
        with pytest.raises(NotFound, match="frontdesk tasks list"):
            catalog.bundle(ref)


def test_bundles_filter_by_app_skill_and_split(catalog: Catalog) -> None:
    catalog.add_bundle(make_bundle_row("b2", apps=["mousepad", "files"], skills=["edit"], created_at=2.0))
    catalog.add_bundle(make_bundle_row("b1", apps=["files"], skills=["move", "edit"], created_at=3.0))
    catalog.add_bundle(make_bundle_row("b3", apps=["mouse"], skills=["draw"], split="heldout", created_at=1.0))
    assert ids(catalog.bundles()) == ["b3", "b2", "b1"]
    assert ids(catalog.bundles(app="files")) == ["b2", "b1"]
    assert ids(catalog.bundles(app="mouse")) == ["b3"]  # the whole name, not a part of another
    assert ids(catalog.bundles(skill="edit", app="mousepad")) == ["b2"]
    assert ids(catalog.bundles(split="heldout")) == ["b3"]
    assert catalog.bundles(skill="edit", split="heldout") == []


def test_proven_means_a_passed_proof_under_the_key_asked_for(catalog: Catalog) -> None:
    for bundle_id in ("failed", "none", "passed"):
        catalog.add_bundle(make_bundle_row(bundle_id))
    catalog.add_proof(make_proof_row("passed"))
    catalog.add_proof(make_proof_row("failed", passed=False))
    key = ProofKey(image_digest="i", checks_version="1", gates_version="1")
    other = ProofKey(image_digest="i", checks_version="2", gates_version="1")
    assert ids(catalog.bundles(proven=True)) == ["passed"]
    assert ids(catalog.bundles(proven=False)) == ["failed", "none"]
    assert ids(catalog.bundles(proven=True, under=key)) == ["passed"]
    assert catalog.bundles(proven=True, under=other) == []
    assert len(catalog.bundles(proven=False, under=other)) == 3


def test_a_proof_replaces_the_one_with_its_key(catalog: Catalog) -> None:
    catalog.add_bundle(make_bundle_row("b1"))
    catalog.add_proof(make_proof_row("b1", created_at=1.0))
    catalog.add_proof(make_proof_row("b1", image_digest="j", created_at=2.0))
    catalog.add_proof(make_proof_row("b1", passed=False, gates=[{"gate": "G3"}], created_at=3.0, seconds=9.0))
    proofs = catalog.proofs("b1")
    assert [(proof.image_digest, proof.passed, proof.created_at) for proof in proofs] == [
        ("i", False, 3.0),
        ("j", True, 2.0),
    ]
    assert (proofs[0].gates, proofs[0].seconds) == ([{"gate": "G3"}], 9.0)
    assert ids(catalog.bundles(proven=True)) == ["b1"]
    with pytest.raises(ConstraintViolated, match="FOREIGN KEY"):
        catalog.add_proof(make_proof_row("nobody"))


def test_an_episode_has_one_row(catalog: Catalog) -> None:
    assert catalog.add_episode(make_episode_row("ep-1"))
    assert not catalog.add_episode(make_episode_row("ep-1"))
    with pytest.raises(TrajectoryConflict, match="ep-1"):
        catalog.add_episode(make_episode_row("ep-1", record="another"))
    assert len(catalog.episodes()) == 1


def test_episodes_filter_and_come_newest_first(catalog: Catalog) -> None:
    for n in range(4):
        catalog.add_episode(
            make_episode_row(
                f"ep-{n}",
                started_at=float(n),
                actor="random" if n % 2 else "oracle",
                outcome="fail" if n == 3 else "pass",
                reward=0.0 if n == 3 else 1.0,
                group_id="g" if n else None,
                split="heldout" if n == 2 else "train",
            )
        )
    assert [row.id for row in catalog.episodes()] == ["ep-3", "ep-2", "ep-1", "ep-0"]
    assert [row.id for row in catalog.episodes(limit=2)] == ["ep-3", "ep-2"]
    assert [row.id for row in catalog.episodes(actor="random", outcome="pass")] == ["ep-1"]
    assert [row.id for row in catalog.episodes(group_id="g", split="train")] == ["ep-3", "ep-1"]
    assert catalog.episodes(task_id="other") == []
    assert catalog.episode("ep-2").started_at == 2.0
    with pytest.raises(Ambiguous, match="more than one episode"):
        catalog.episode("ep")
    with pytest.raises(NotFound, match="frontdesk episodes list"):
        catalog.episode("x")


def test_outcomes_are_counted_apart(catalog: Catalog) -> None:
    outcomes = ["pass", "pass", "fail", "infra_error"]
    for n, outcome in enumerate(outcomes):
        reward = {"pass": 1.0, "fail": 0.0, "infra_error": None}[outcome]
        catalog.add_episode(make_episode_row(f"a{n}", outcome=outcome, reward=reward))
    catalog.add_episode(make_episode_row("b", actor="random", outcome="fail", reward=0.2, split="heldout"))
    oracle = OutcomeCount(task_id="task", actor="oracle", num_pass=2, num_fail=1, num_infra_error=1)
    random = OutcomeCount(task_id="task", actor="random", num_pass=0, num_fail=1, num_infra_error=0)
    assert catalog.outcomes() == [oracle, random]
    assert catalog.outcomes(split="heldout") == [random]
    assert catalog.outcomes(actor="oracle", task_id="task") == [oracle]
    assert catalog.outcomes(task_id="other") == []


@pytest.mark.parametrize(
    ("outcome", "reward", "constraint"),
    [
        ("infra_error", 0.0, "infra_error_has_no_reward"),
        ("infra_error", 1.0, "infra_error_has_no_reward"),
        ("fail", None, "infra_error_has_no_reward"),
        ("pass", None, "infra_error_has_no_reward"),
        ("fail", float("nan"), "infra_error_has_no_reward"),
        ("fail", -0.1, "reward_in_unit_interval"),
        ("pass", 1.1, "reward_in_unit_interval"),
        ("error", 0.0, "outcome_known"),
        ("", None, "outcome_known"),
    ],
)
def test_the_database_itself_refuses_dishonest_outcomes(
    catalog: Catalog, outcome: str, reward: float | None, constraint: str
) -> None:
    with pytest.raises(ConstraintViolated, match=constraint):
        catalog.add_episode(make_episode_row(outcome=outcome, reward=reward))
    good = make_episode_row("good")
    catalog.add_episode(good)
    change = text("UPDATE episode SET outcome = :outcome, reward = :reward WHERE id = 'good'")
    with pytest.raises(ConstraintViolated, match=constraint), catalog.session() as session:
        session.connection().execute(change, {"outcome": outcome, "reward": reward})
    assert [row.outcome for row in catalog.episodes()] == ["pass"]
    with catalog.session() as session:  # the statement works; it was the values
        session.connection().execute(change, {"outcome": "infra_error", "reward": None})
    assert catalog.episode("good").reward is None


def test_a_session_is_one_transaction(catalog: Catalog) -> None:
    def add_run_then_fail() -> None:
        with catalog.session() as session:
            session.add(RunRow(id="r1", kind="train", config={}, status="running", started_at=1.0, finished_at=None))
            session.flush()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        add_run_then_fail()
    with catalog.session() as session:
        assert session.get(RunRow, "r1") is None
        session.add(SamplerStateRow(sampler="frontier", key="task", state={"a": 1}, version=1))
    with catalog.session(read_only=True) as session:
        row = session.get(SamplerStateRow, ("frontier", "task"))
    assert row is not None
    assert row.state == {"a": 1}  # usable after its session


def test_readers_do_not_wait_for_a_writer(catalog: Catalog) -> None:
    with catalog.session() as writing:
        writing.add(make_bundle_row("b1"))
        writing.flush()
        assert catalog.bundles() == []
    assert len(catalog.bundles()) == 1


def test_sqlite_is_set_up_to_be_durable(catalog: Catalog) -> None:
    with catalog.session(read_only=True) as session:
        pragmas = {
            name: session.connection().execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_a_newer_schema_is_not_touched(catalog: Catalog, url: str) -> None:
    with catalog.session() as session:
        session.connection().execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match=r"'9999'.*Install the newer Frontdesk"):
        Catalog.open(url)


def test_a_catalog_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"not a database " * 100)
    with sqlite3.connect(tmp_path / "foreign.sqlite") as foreign:
        foreign.execute("CREATE TABLE bundle (id TEXT)")
    foreign.close()
    for bad, why in (
        ("nonsense", "write sqlite:"),
        ("mysql://host/name", "not in mysql"),
        ("postgresql+nodriver://host/name", "nodriver"),
        (f"sqlite:///{tmp_path}/no/such/place.sqlite", "unable to open"),
        (f"sqlite:///{tmp_path}/text", "not a database"),
        (f"sqlite:///{tmp_path}/foreign.sqlite", "bundle already exists"),
    ):
        with pytest.raises(CatalogError, match=why):
            Catalog.open(bad)


def test_a_damaged_catalog_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(CatalogError, match="put a copy from a backup in its place, or move it away"):
        Catalog.open(f"sqlite:///{path}")
    path.unlink()
    Catalog.open(f"sqlite:///{path}").close()
    with path.open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(CatalogError, match=r"malformed\. The file is damaged"):
        Catalog.open(f"sqlite:///{path}")


def test_a_full_catalog_says_what_to_do(catalog: Catalog) -> None:
    def fill() -> None:
        with catalog.session() as session:
            session.execute(text("PRAGMA max_page_count = 1"))
            session.execute(text("CREATE TABLE more (id TEXT)"))

    with pytest.raises(CatalogError, match=r"is full\. Look whether the disk is full"):
        fill()


def test_a_failed_migration_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE run (id TEXT)")  # the last table that the migration makes
    with pytest.raises(CatalogError, match="run already exists"):
        Catalog.open(f"sqlite:///{path}")
    assert [row[0] for row in connection.execute("SELECT name FROM sqlite_master")] == ["run"]
    connection.close()


def test_runs_are_written_again_and_listed_newest_first(catalog: Catalog) -> None:
    for run_id, kind, started_at in (("r1", "eval", 1.0), ("r2", "eval", 2.0), ("r3", "synth", 3.0)):
        catalog.put_run(
            RunRow(id=run_id, kind=kind, config={}, status="running", started_at=started_at, finished_at=None)
        )
    catalog.put_run(
        RunRow(id="r1", kind="eval", config={"seed": 7}, status="finished", started_at=1.0, finished_at=9.0)
    )
    assert [(run.id, run.status, run.config) for run in catalog.runs("eval")] == [
        ("r2", "running", {}),
        ("r1", "finished", {"seed": 7}),
    ]


def test_no_connection_is_left_open(url: str) -> None:
    with Catalog.open(url) as catalog:
        with catalog.session() as session:
            session.connection().execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert catalog.episodes() == []
    with pytest.raises(SchemaTooNew) as caught:  # holding on to the error holds on to its engine
        Catalog.open(url)
    assert open_files(url) == 0
    assert caught.value is not None
    catalog = Catalog.open(url.replace("catalog", "other"))
    catalog.bundles()
    assert open_files("other.sqlite") > 0
    catalog.close()
    assert open_files("other.sqlite") == 0
