"""What the state directory holds, what of it can go, and letting it go.

What can go: blobs older than a day that no trajectory and no task refers to, images of earlier definitions,
package files kept for builds, what killed builds and killed backends left. Trajectories, proofs, runs and reports
stay.

An image is only removed while no desktop of this state directory lives, because a desktop reads it to its end.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from sandbox.backends.named import BackendName, make_backend
from sandbox.errors import MissingRequirement
from sandbox.image import Image, ImageCache, load_profile, profile_names
from store import BlobStore, Catalog, Home, TrajectoryStore
from verigen.bundle import parse_bundle

__all__ = ["Holding", "collect", "survey"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """One kind of thing that is kept."""

    what: str
    where: Path
    num: int
    size_bytes: int
    num_free: int
    """How many of them can go."""
    free_bytes: int
    """Bytes that this frees."""


def survey(home: Home, blobs: BlobStore, catalog: Catalog, trajectories: TrajectoryStore) -> list[Holding]:
    """Look at everything that is kept. Changes nothing."""
    num_dead, dead_bytes = blobs.unreferenced(_live_blobs(catalog, trajectories))
    images = ImageCache(home.images)
    old = _outdated(images)
    leftovers = [path for path in home.images.glob(".*") if path.is_dir()]
    return [
        _holding("screenshots, evidence, assets", home.blobs, num_free=num_dead, free_bytes=dead_bytes),
        _holding("trajectories", home.trajectories),
        Holding(
            what="desktop images",
            where=home.images,
            num=len(images.list()),
            size_bytes=sum(image.size_bytes for image in images.list()),
            num_free=len(old),
            free_bytes=sum(image.size_bytes for image in old),
        ),
        Holding(
            what="downloads and remains of builds",
            where=home.images,
            num=len(leftovers),
            size_bytes=(size := sum(_size(path) for path in leftovers)),
            num_free=len(leftovers),
            free_bytes=size,
        ),
        _holding("training runs, ledgers of synthesis", home.runs),
        _holding("reports", home.reports),
    ]


async def collect(home: Home, blobs: BlobStore, catalog: Catalog, trajectories: TrajectoryStore) -> list[str]:
    """Let go what can go; return what was done, for a person."""
    done = []
    reaped = 0
    for name in _backends(home):
        backend = make_backend(name, ImageCache(home.images), home.run)
        try:
            reaped += len(await backend.reap())
        except MissingRequirement as error:
            done.append(f"kept what desktops of {name} left: {error.what}")
        finally:
            await backend.close()
    if reaped:
        done.append(f"removed what {reaped} dead desktops left")
    trajectories.recover()  # what a killed commit left half done counts as live, or goes
    report = blobs.gc(_live_blobs(catalog, trajectories))
    done.append(f"removed {report.removed} blobs that nothing refers to")
    images = ImageCache(home.images)
    old = _outdated(images)
    if any(any(home.run.glob(pattern)) for pattern in ("frontdesk-*", "docker-*")):
        if old:
            done.append(f"kept {len(old)} images of earlier definitions, because desktops are open")
    else:
        for image in old:
            images.remove(image)
            done.append(f"removed the image {images.folder(image).name}, of an earlier definition")
    swept = images.gc(downloads=True)
    if swept:
        done.append("removed the downloads and remains of image builds")
    return done


def _backends(home: Home) -> list[BackendName]:
    """Those that may have left something; a Docker daemon is only asked where desktops ran in one."""
    return ["local", "docker"] if any(home.run.glob("docker-*")) else ["local"]


def _live_blobs(catalog: Catalog, trajectories: TrajectoryStore) -> frozenset[str]:
    bundles = (parse_bundle(row.document, source=f"task {row.id[:12]}") for row in catalog.bundles())
    return trajectories.live_blobs().union(*(bundle.assets for bundle in bundles))


def _outdated(images: ImageCache) -> list[Image]:
    return [image for name in profile_names() for image in images.outdated(load_profile(name))]


def _holding(what: str, where: Path, *, num_free: int = 0, free_bytes: int = 0) -> Holding:
    sizes = [
        size for path in where.rglob("*") if not path.name.startswith(".") and (size := _file_size(path)) is not None
    ]
    return Holding(
        what=what,
        where=where,
        num=len(sizes),
        size_bytes=sum(sizes),
        num_free=num_free,
        free_bytes=free_bytes,
    )


def _size(folder: Path) -> int:
    return sum(_file_size(path) or 0 for path in folder.rglob("*"))


def _file_size(path: Path) -> int | None:
    """Bytes of a regular file; None of anything else, and of what is gone by now."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
