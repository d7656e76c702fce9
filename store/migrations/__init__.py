"""The catalog's schema through time: Alembic revisions, run from here and never from an alembic.ini.

`versions/` holds one module per revision. A new one is written by hand; the test that compares what the revisions make
with `store.tables` says what is missing.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from store.errors import SchemaTooNew

__all__ = ["alembic_config", "is_current", "upgrade"]

_LOCK_KEY = 0x66646B63
"""Advisory lock that keeps two processes from migrating one PostgreSQL database at once."""


def alembic_config(connection: Connection) -> Config:
    """What `alembic.command` functions need to work on this connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def is_current(connection: Connection) -> bool:
    """Whether the schema is the newest that this code knows.

    Raises:
        SchemaTooNew: it is one that this code does not know.
    """
    script = ScriptDirectory.from_config(alembic_config(connection))
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {known.revision for known in script.walk_revisions()}:
        raise SchemaTooNew(
            f"the catalog has schema {revision!r}, which this Frontdesk does not know (it knows up to "
            f"{script.get_current_head()!r}). Install the newer Frontdesk that made it, or use another FRONTDESK_HOME"
        )
    return revision == script.get_current_head()


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest revision, inside the connection's transaction: all of it happens or nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    if not is_current(connection):
        command.upgrade(alembic_config(connection), "head")
