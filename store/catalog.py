"""The catalog: which tasks there are, what proves them, and what became of every attempt.

A relational database reached by URL: SQLite (the default; one file, write-ahead log) or PostgreSQL. `Catalog.open`
makes the schema or brings it up to date. Constraints, not callers, give exactly-once: a bundle, a proof and an episode
each have one row whoever adds them how often.

Methods return rows detached from their session: plain objects, safe to keep. Every database error comes out as a
`CatalogError`. Calls block; async code runs them in a thread. After a fork the child opens a catalog of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Engine, case, exists, func
from sqlmodel import Session, SQLModel, col, select
from sqlmodel.sql.expression import SelectOfScalar

from store.database import has_element, insert_into, make_engine, starts_with, typed_errors, writing
from store.errors import Ambiguous, CatalogError, NotFound, TrajectoryConflict
from store.migrations import is_current, upgrade
from store.tables import BundleRow, EpisodeRow, ProofRow, RunRow, SamplerEventRow, SamplerStateRow

__all__ = ["Catalog", "OutcomeCount", "ProofKey"]

Row = TypeVar("Row", bound=SQLModel)
_WHOLE = "state"
"""Key of the row that holds a sampler's whole state."""
_PROOF_KEY = ("bundle_id", "image_digest", "checks_version", "gates_version")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofKey:
    """The circumstances under which a bundle was proven."""

    image_digest: str
    checks_version: str
    gates_version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeCount:
    """How one actor's attempts at one task ended."""

    task_id: str
    actor: str
    num_pass: int
    num_fail: int
    num_infra_error: int
    """Apart from the failures: they say nothing of the actor."""


class Catalog:
    """An open catalog. Close it, or use it as a context manager."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the database, making or migrating its schema as needed.

        Args:
            url: e.g. `Home.catalog_url`, `sqlite:///path`, `postgresql+psycopg://user@host/name`.

        Raises:
            SchemaTooNew: a newer Frontdesk made it.
            CatalogError: it cannot be opened; the message says why.
        """
        engine = make_engine(url)
        try:
            with typed_errors(f"cannot open the catalog {engine.url}"):
                with engine.connect() as connection:
                    current = is_current(connection)
                if not current:
                    with writing(engine).begin() as connection:
                        upgrade(connection)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Close its connections. Idempotent."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def session(self, *, read_only: bool = False) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back if the block raises.

        Args:
            read_only: do not take the write lock (SQLite has one writer at a time; readers never wait).

        Raises:
            ConstraintViolated: a row broke a constraint.
            CatalogError: the database failed.
        """
        engine = self._engine if read_only else writing(self._engine)
        with typed_errors("the catalog failed"), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def add_bundle(self, bundle: BundleRow) -> bool:
        """Add a bundle unless one of its id is there, which then stays as it is, its split included.

        Returns:
            Whether it was added.
        """
        return self._insert(bundle)

    def bundle(self, ref: str) -> BundleRow:
        """The bundle with this id, this name, or the only one whose id starts so; tried in this order.

        Raises:
            NotFound: there is none.
            Ambiguous: several have this name or prefix.
        """
        with self.session(read_only=True) as session:
            found = session.get(BundleRow, ref)
            if found is not None:
                return found
            for condition in (col(BundleRow.name) == ref, starts_with(BundleRow.id, ref)):
                rows = session.exec(select(BundleRow).where(condition).order_by(col(BundleRow.id)).limit(5)).all()
                if len(rows) > 1:
                    raise Ambiguous(ref, [row.id for row in rows], what="task")
                if rows:
                    return rows[0]
        raise NotFound(f"the catalog has no task {ref!r}; `frontdesk tasks list` shows those it has")

    def bundles(
        self,
        *,
        app: str | None = None,
        skill: str | None = None,
        split: str | None = None,
        proven: bool | None = None,
        under: ProofKey | None = None,
    ) -> list[BundleRow]:
        """The bundles that fit every filter given, oldest first.

        Args:
            proven: True for those with a passed proof, False for those without.
            under: count only proofs with this key.
        """
        query = select(BundleRow).order_by(col(BundleRow.created_at), col(BundleRow.id))
        if app is not None:
            query = query.where(has_element(self._engine, BundleRow.apps, app))
        if skill is not None:
            query = query.where(has_element(self._engine, BundleRow.skills, skill))
        if split is not None:
            query = query.where(col(BundleRow.split) == split)
        if proven is not None:
            proof = exists().where(col(ProofRow.bundle_id) == col(BundleRow.id), col(ProofRow.passed).is_(True))
            if under is not None:
                proof = proof.where(
                    col(ProofRow.image_digest) == under.image_digest,
                    col(ProofRow.checks_version) == under.checks_version,
                    col(ProofRow.gates_version) == under.gates_version,
                )
            query = query.where(proof if proven else ~proof)
        return self._all(query)

    def add_proof(self, proof: ProofRow) -> None:
        """Store a proof; one of the same bundle, image and versions is replaced.

        Raises:
            ConstraintViolated: the catalog has no such bundle.
        """
        values = proof.model_dump(exclude={"id"})
        news = {name: value for name, value in values.items() if name not in _PROOF_KEY}
        statement = insert_into(self._engine, ProofRow).values(values)
        with self.session() as session:
            session.connection().execute(statement.on_conflict_do_update(index_elements=_PROOF_KEY, set_=news))

    def proofs(self, bundle_id: str) -> list[ProofRow]:
        """A bundle's proofs, newest first."""
        return self._all(
            select(ProofRow)
            .where(col(ProofRow.bundle_id) == bundle_id)
            .order_by(col(ProofRow.created_at).desc(), col(ProofRow.id).desc())
        )

    def add_episode(self, episode: EpisodeRow) -> bool:
        """Add an attempt's row; `TrajectoryStore.commit` does it once the record is on the disk.

        Returns:
            False if the same record's row was there already.

        Raises:
            TrajectoryConflict: its id belongs to another record.
        """
        if self._insert(episode):
            return True
        if self.episode(episode.id).record != episode.record:
            raise TrajectoryConflict(episode.id)
        return False

    def episode(self, ref: str) -> EpisodeRow:
        """The episode with this id, or the only one whose id starts so.

        Raises:
            NotFound: there is none.
            Ambiguous: several ids start so.
        """
        with self.session(read_only=True) as session:
            found = session.get(EpisodeRow, ref)
            if found is not None:
                return found
            query = select(EpisodeRow).where(starts_with(EpisodeRow.id, ref)).order_by(col(EpisodeRow.id)).limit(5)
            rows = session.exec(query).all()
            if len(rows) > 1:
                raise Ambiguous(ref, [row.id for row in rows], what="episode")
            if rows:
                return rows[0]
        raise NotFound(f"the catalog has no episode {ref!r}; `frontdesk episodes list` shows those it has")

    def episodes(
        self,
        *,
        task_id: str | None = None,
        actor: str | None = None,
        outcome: str | None = None,
        split: str | None = None,
        group_id: str | None = None,
        limit: int | None = None,
    ) -> list[EpisodeRow]:
        """The episodes that fit every filter given, newest first, at most `limit`."""
        query = select(EpisodeRow).order_by(col(EpisodeRow.started_at).desc(), col(EpisodeRow.id)).limit(limit)
        return self._all(
            query.filter_by(
                **_given(task_id=task_id, actor=actor, outcome=outcome, split=split, group_id=group_id),
            )
        )

    def outcomes(
        self, *, task_id: str | None = None, actor: str | None = None, split: str | None = None
    ) -> list[OutcomeCount]:
        """How attempts ended, per task and actor, ordered by both."""
        task, who = col(EpisodeRow.task_id), col(EpisodeRow.actor)
        numbers = [
            func.sum(case((col(EpisodeRow.outcome) == outcome, 1), else_=0))
            for outcome in ("pass", "fail", "infra_error")
        ]
        query = (
            select(EpisodeRow)
            .filter_by(**_given(task_id=task_id, actor=actor, split=split))
            .with_only_columns(task, who, *numbers)
            .group_by(task, who)
            .order_by(task, who)
        )
        with self.session(read_only=True) as session:
            return [
                OutcomeCount(task_id=row[0], actor=row[1], num_pass=row[2], num_fail=row[3], num_infra_error=row[4])
                for row in session.connection().execute(query)
            ]

    def put_run(self, run: RunRow) -> None:
        """Write a run's row, in the place of an earlier one of its id."""
        with self.session() as session:
            session.merge(run)

    def runs(self, kind: str) -> list[RunRow]:
        """The runs of one kind, newest first."""
        query = select(RunRow).where(col(RunRow.kind) == kind)
        return self._all(query.order_by(col(RunRow.started_at).desc(), col(RunRow.id)))

    def put_sampler(
        self, sampler: str, state: dict[str, Any], events: Sequence[SamplerEventRow], *, seen: int | None = None
    ) -> int:
        """Keep a sampler's state in the place of the earlier one, and add to its history: both or neither.

        Args:
            sampler: its name, for example the run's id.
            state: JSON data.
            events: what happened since the last time.
            seen: the number that the last `put_sampler` or `sampler` gave; None to write whatever is there.

        Returns:
            The number of this write.

        Raises:
            CatalogError: another writer has been there since.
        """
        with self.session() as session:
            row = session.get(SamplerStateRow, (sampler, _WHOLE))
            there = row.version if row is not None else 0
            if seen is not None and seen != there:
                raise CatalogError(
                    f"sampler {sampler!r} was written {there} times and this process knows of {seen}; "
                    "two processes train under one name: give each run its own"
                )
            session.merge(SamplerStateRow(sampler=sampler, key=_WHOLE, state=state, version=there + 1))
            session.add_all(events)
        return there + 1

    def sampler(self, name: str) -> SamplerStateRow:
        """A sampler's state.

        Raises:
            NotFound: none of this name was kept.
        """
        with self.session(read_only=True) as session:
            row = session.get(SamplerStateRow, (name, _WHOLE))
        if row is None:
            kept = ", ".join(self.samplers()) or "none"
            raise NotFound(f"the catalog has no sampler {name!r}; it has: {kept}")
        return row

    def samplers(self) -> list[str]:
        """The names of the samplers that are kept."""
        query = select(SamplerStateRow.sampler).where(col(SamplerStateRow.key) == _WHOLE)
        with self.session(read_only=True) as session:
            return sorted(session.exec(query))

    def sampler_events(
        self, sampler: str, *, task_id: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> list[SamplerEventRow]:
        """A sampler's history, newest first."""
        query = select(SamplerEventRow).filter_by(sampler=sampler, **_given(task_id=task_id, kind=kind))
        return self._all(query.order_by(col(SamplerEventRow.id).desc()).limit(limit))

    def _all(self, query: SelectOfScalar[Row]) -> list[Row]:
        with self.session(read_only=True) as session:
            return list(session.exec(query))

    def _insert(self, row: BundleRow | EpisodeRow) -> bool:
        """Insert the row unless its id is taken; say whether it was inserted."""
        statement = insert_into(self._engine, type(row)).values(row.model_dump())
        statement = statement.on_conflict_do_nothing(index_elements=["id"])
        with self.session() as session:
            # What RETURNING gives is what was inserted; drivers differ in the row counts that they report.
            return session.connection().execute(statement.returning(col(type(row).id))).first() is not None


def _given(**filters: str | None) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value is not None}
