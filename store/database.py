"""What SQLite and PostgreSQL do differently, and what both must do for the catalog.

SQLite: write-ahead log with full fsync (a committed row survives a power cut), foreign keys on, a busy timeout, and
real transactions: the driver's own ideas of when to begin are switched off, and a transaction that will write says so
at its start, because one that reads first and writes later can fail at once whatever the timeout.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, create_engine, event, exists, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlmodel import SQLModel, col, select

from store.errors import CatalogError, ConstraintViolated

__all__ = ["has_element", "insert_into", "make_engine", "starts_with", "typed_errors", "writing"]

BUSY_TIMEOUT_S = 30.0
_DAMAGED = (
    "The file is damaged: put a copy from a backup in its place, or move it away, and a new catalog is made that knows "
    "nothing of the old one's tasks, proofs and episodes"
)
_NO_ROOM = "Look whether the disk is full: `frontdesk gc --apply` frees what nothing refers to"
_ADVICE = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: _NO_ROOM,
    # What a full disk looks like when the shared memory beside the database cannot grow.
    sqlite3.SQLITE_IOERR: _NO_ROOM,
    sqlite3.SQLITE_READONLY: "Set FRONTDESK_HOME to a directory that you may write",
}
"""What to do about SQLite's own failures, by primary result code."""
_BEGIN = "frontdesk_begin"


def make_engine(url: str) -> Engine:
    """An engine for a catalog's URL; nothing is opened yet.

    Raises:
        CatalogError: the URL is not one, or its driver is not installed.
    """
    try:
        backend = make_url(url).get_backend_name()
        if backend not in ("sqlite", "postgresql"):
            raise CatalogError(f"a catalog lives in SQLite or PostgreSQL, not in {backend}")
        engine = create_engine(url)
    except ArgumentError as error:
        raise CatalogError(
            f"the catalog's URL cannot be used ({error}); "
            "write sqlite:////absolute/path or postgresql+psycopg://user@host/name"
        ) from error
    except ModuleNotFoundError as error:
        raise CatalogError(
            f"the catalog's database driver {error.name} is not installed; `pip install 'psycopg[binary]'` supplies "
            "the one for postgresql+psycopg:// URLs"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def writing(engine: Engine) -> Engine:
    """The same engine, for transactions that will write."""
    return engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # The busy timeout does not cover the change to WAL, which fails while others open the new file.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))


@contextmanager
def typed_errors(doing: str) -> Iterator[None]:
    """Turn the database layers' errors into `CatalogError`s that carry them."""
    try:
        yield
    except IntegrityError as error:
        raise ConstraintViolated(f"{doing}: {error.orig}") from error
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        # The low byte of an extended result code is the primary one.
        advice = _ADVICE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
        raise CatalogError(f"{doing}: {cause}" + (f". {advice}" if advice else "")) from error


def insert_into(engine: Engine, table: type[SQLModel]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT."""
    target: Table = table.__table__  # type: ignore[attr-defined]
    return postgresql.insert(target) if engine.dialect.name == "postgresql" else sqlite.insert(target)


def starts_with(column: str, prefix: str) -> ColumnElement[bool]:
    """Whether a text column starts so: exactly, where LIKE would ignore case and honour wild cards."""
    # At least one character, so that an empty prefix fits nothing rather than everything.
    return func.substr(col(column), 1, max(1, len(prefix))) == prefix


def has_element(engine: Engine, column: Any, value: str) -> ColumnElement[bool]:
    """Whether a JSON column that holds a list of texts has this one."""
    if engine.dialect.name == "postgresql":
        element = func.json_array_elements_text(column).table_valued("value")
    else:
        element = func.json_each(column).table_valued("value")
    return exists(select(1).select_from(element).where(element.c.value == value))
