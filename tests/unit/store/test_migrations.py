from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from store.database import make_engine, writing
from store.migrations import alembic_config, is_current, upgrade
from store.tables import metadata


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = make_engine(f"sqlite:///{tmp_path / 'migrated.sqlite'}")
    with writing(engine).begin() as connection:
        upgrade(connection)
    yield engine
    engine.dispose()


def schema(connection: Connection) -> dict[str, str]:
    """Every statement that makes the schema, without its layout."""
    rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%'"))
    parts = {name: [part.strip() for part in sql.replace("\n", " ").split(",")] for name, sql in rows if sql}
    return {name: ", ".join(sorted(" ".join(part.split()) for part in found)) for name, found in parts.items()}


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


def test_migrations_make_exactly_the_tables(engine: Engine, tmp_path: Path) -> None:
    direct = make_engine(f"sqlite:///{tmp_path / 'direct.sqlite'}")
    metadata.create_all(direct)
    with engine.connect() as migrated, direct.connect() as created:
        assert differences(migrated) == []
        checks = inspect(migrated).get_check_constraints("episode")
        assert len(checks) == 3
        assert checks == inspect(created).get_check_constraints("episode")
        assert set(schema(migrated)) == set(schema(created))
        assert len(inspect(migrated).get_foreign_keys("proof")) == 1
        assert inspect(migrated).get_unique_constraints("proof") == inspect(created).get_unique_constraints("proof")
    direct.dispose()


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE run ADD COLUMN extra TEXT", "DROP INDEX ix_run_kind", "ALTER TABLE run DROP COLUMN status"],
)
def test_the_comparison_sees_a_difference(engine: Engine, change: str) -> None:
    with writing(engine).begin() as connection:
        connection.execute(text(change))
        assert differences(connection) != []
        connection.rollback()


def test_downgrade_and_upgrade_again(engine: Engine) -> None:
    with engine.connect() as connection:
        before = schema(connection)
        assert is_current(connection)
    with writing(engine).begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert schema(connection) == {}
        assert not is_current(connection)
    with writing(engine).begin() as connection:
        upgrade(connection)
        assert schema(connection) == before
        upgrade(connection)  # nothing left to do


def test_revisions_form_one_line(engine: Engine) -> None:
    with engine.connect() as connection:
        script = ScriptDirectory.from_config(alembic_config(connection))
    revisions = list(script.walk_revisions())
    assert len(script.get_heads()) == len(script.get_bases()) == 1
    assert all(revision.doc and Path(revision.path).name.startswith(f"v{revision.revision}") for revision in revisions)
