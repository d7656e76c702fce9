"""What commands about tasks and episodes work on: the state directory, opened, and tasks found by what people type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import Mark

if TYPE_CHECKING:
    from store import BlobStore, Catalog, Home, TrajectoryStore
    from verigen.assets import Assets
    from verigen.bundle import Bundle
    from verigen.packs import Split

__all__ = ["OUTCOME_MARKS", "FoundTask", "Workspace", "named_split", "open_workspace"]

OUTCOME_MARKS: dict[str, Mark] = {"pass": "ok", "fail": "bad", "infra_error": "warn"}
"""An infra_error is a warning about the machine, not the actor's failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundTask:
    """A bundle and where it comes from."""

    bundle: Bundle
    assets: Assets
    origin: str
    """`shipped`, `catalog`, or the folder that it was read from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The opened state directory."""

    home: Home
    blobs: BlobStore
    catalog: Catalog
    trajectories: TrajectoryStore

    def shipped(self) -> list[FoundTask]:
        """The hand-made tasks that come with Frontdesk."""
        from verigen.bundle import load_bundle, shipped_bundles

        found = []
        for folder in shipped_bundles():
            bundle, assets = load_bundle(folder)
            found.append(FoundTask(bundle=bundle, assets=assets, origin="shipped"))
        return found

    def generated(self) -> list[tuple[FoundTask, str]]:
        """The generated tasks that come with Frontdesk, and the split of each."""
        from verigen.assets import MemoryAssets
        from verigen.sets import read_sets

        return [
            (FoundTask(bundle=task.bundle, assets=MemoryAssets(), origin="shipped"), task.split) for task in read_sets()
        ]

    def tasks(self, *, app: str | None = None, split: str | None = None) -> list[FoundTask]:
        """Every task there is: the shipped ones, then those that only the catalog has."""
        from verigen.assets import BlobAssets
        from verigen.bundle import parse_bundle

        found = [] if split not in (None, "train") else self.shipped()
        found += [task for task, its_split in self.generated() if split in (None, its_split)]
        found = [task for task in found if app is None or app in task.bundle.task.apps]
        known = {task.bundle.id for task in found}
        for row in self.catalog.bundles(app=app, split=split):
            if row.id not in known:
                bundle = parse_bundle(row.document, source=f"task {row.id[:12]} of the catalog")
                found.append(FoundTask(bundle=bundle, assets=BlobAssets(self.blobs), origin="catalog"))
        return found

    def find(self, ref: str) -> FoundTask:
        """The task that a person means: a bundle's folder, a name, an id or the beginning of one.

        Raises:
            ValueError: there is none, or several; the message says what to do.
        """
        from verigen.assets import BlobAssets
        from verigen.bundle import load_bundle, parse_bundle

        if "/" in ref or Path(ref, "bundle.json").is_file():
            bundle, assets = load_bundle(Path(ref))
            return FoundTask(bundle=bundle, assets=assets, origin=ref)
        for task in [*self.shipped(), *(task for task, _ in self.generated())]:
            if ref == task.bundle.task.name or (len(ref) >= 4 and task.bundle.id.startswith(ref)):
                return task
        row = self.catalog.bundle(ref)
        bundle = parse_bundle(row.document, source=f"task {row.id[:12]} of the catalog")
        return FoundTask(bundle=bundle, assets=BlobAssets(self.blobs), origin="catalog")

    def keep(self, task: FoundTask, *, split: str | None = None) -> bool:
        """Put a task into the catalog, its assets into the blob store; say whether it was new.

        Args:
            split: None keeps a generated task in its own split, and any other for training.
        """
        from verigen.packs import own_split
        from verigen.proof import store_bundle

        for name in sorted(task.bundle.assets):
            self.blobs.put(task.assets.get(name))
        return store_bundle(self.catalog, task.bundle, split=split or own_split(task.bundle) or "train")


def named_split(text: str) -> Split:
    """The split that a person names.

    Raises:
        ValueError: there is none of this name; the message lists them.
    """
    from verigen.packs import SPLITS

    for split in SPLITS:
        if text == split:
            return split
    raise ValueError(f"there is no split {text!r}; choose {', '.join(SPLITS)}")


@contextmanager
def open_workspace() -> Iterator[Workspace]:
    """Open the state directory for one command."""
    from store import BlobStore, Catalog, Home, TrajectoryStore

    home = Home.default().ensure()
    blobs = BlobStore(home.blobs)
    with Catalog.open(home.catalog_url) as catalog:
        yield Workspace(
            home=home, blobs=blobs, catalog=catalog, trajectories=TrajectoryStore(home.trajectories, blobs, catalog)
        )
