"""Builds a desktop image: mmdebstrap, then the profile's files, then its bake script.

::

    lock -> .building-XXXX/: mmdebstrap -> files -> bake -> scrub -> versions -> sync -> rename to <profile>-<digest>
              `-- any error, kill -9 or power cut: no image; the next build or `gc` removes the folder

Trade-off accepted: one build at a time per images folder. A second build of the same profile waits and takes the
first's image; one of another profile waits too, because both would want the same cores and the same download cache.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from sandbox.errors import ImageError
from sandbox.image.buildlog import BuildLog
from sandbox.image.cache import BUILDING, DOWNLOADS, ImageCache, remove_tree
from sandbox.image.contained import check_requirements, run_contained
from sandbox.image.definition import Profile
from sandbox.image.manifest import Image, image_digest, read_image, write_manifest
from sandbox.image.progress import BuildProgress, ProgressReader, Report
from sandbox.image.sources import machine_apt_options, machine_sources

__all__ = ["build_image"]

# Fixed, so that a file's time does not depend on the checkout: 2024-01-01 UTC.
_FILE_TIME = 1704067200
_DPKG_OPTIONS = (
    # The whole image is synced once at its end; syncing package by package only costs time.
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
    "path-include=/usr/share/locale/en*",
)
_APT_OPTIONS = ('Apt::Install-Recommends "false"', 'Acquire::Languages "none"', 'Acquire::Retries "3"')
_LEAST_FREE_BYTES = 1 << 29
"""No image fits in less, and apt, whose index does not fit, waits for ever rather than fail."""
# What a build leaves that belongs to the build machine (its mirror, its name server, its name) or is only a cache.
_SCRUBBED = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/resolv.conf",
    "var/lib/apt/lists/*",
    "var/cache/apt/*",
    "var/log/apt",
    "var/log/*.log",
    "var/cache/debconf/*-old",
    "var/lib/dpkg/*-old",
    "tmp/*",
)
# $1 is the root, $2 the script. /dev holds only what is listed: a bake script cannot reach the machine's devices.
_BAKE = """
set -eu
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
for name in null zero full random urandom; do : >"$1/dev/$name"; mount --bind "/dev/$name" "$1/dev/$name"; done
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
cp "$2" "$1/tmp/bake.sh"
exec chroot "$1" sh /tmp/bake.sh
"""


def build_image(profile: Profile, images_root: Path, *, progress: Report | None = None) -> Image:
    """The image of this definition; built if there is none yet.

    Args:
        profile: the definition.
        images_root: folder of all images.
        progress: called as the build advances.

    Raises:
        MissingRequirement: this machine cannot build; the message says what to do.
        ImageError: the build failed; the message has the cause, the log's end and what to do. Nothing is left of it.
    """
    report = progress if progress is not None else _ignore
    cache = ImageCache(images_root)
    if (image := cache.find(profile)) is not None:
        return image
    check_requirements()
    waiting = BuildProgress(phase="waiting", percent=0.0, message="waiting for another build to finish")
    with cache.lock(on_wait=lambda: report(waiting)) as lock_fd:
        if (image := cache.find(profile)) is not None:
            return image
        cache.sweep()
        if (free := shutil.disk_usage(images_root).free) < _LEAST_FREE_BYTES:
            raise ImageError(
                f"the disk of {images_root} is nearly full ({free >> 20} MB are free, an image takes 1 to 2 GB): free "
                "some space and build again, or set FRONTDESK_HOME to a directory on a larger disk"
            )
        work = Path(tempfile.mkdtemp(prefix=BUILDING, dir=images_root))
        try:
            return _Build(profile, cache, work, lock_fd, report).run()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ImageError(f"the disk of {images_root} is full: free some space and build again") from error
            raise ImageError(f"building {profile.name} failed: {error}") from error
        finally:
            if work.exists():
                remove_tree(work)


def _ignore(progress: BuildProgress) -> None:
    pass


class _Build:
    def __init__(self, profile: Profile, cache: ImageCache, work: Path, lock_fd: int, report: Report) -> None:
        self._profile = profile
        self._cache = cache
        self._work = work
        self._root = work / "root"
        self._lock_fd = lock_fd
        self._reader = ProgressReader(report)

    def run(self) -> Image:
        with BuildLog(self._cache.root / ".last-build.log") as self._log:
            self._bootstrap()
            self._reader.enter("files", "copying the profile's files")
            self._copy_files()
            if self._profile.bake:
                self._reader.enter("bake", "preparing caches")
                self._bake()
            self._reader.enter("finish", "writing the image to disk")
            self._scrub()
            return self._publish()

    def _step(self, what: str, argv: list[str], *, stdin: Path = Path(os.devnull), network: bool = False) -> None:
        code = run_contained(argv, on_line=self._line, lock_fd=self._lock_fd, stdin=stdin, network=network)
        if code != 0:
            raise ImageError(self._log.explain(f"building {self._profile.name} failed: {what} ended with code {code}"))

    def _line(self, line: str) -> None:
        self._log.write(line)
        self._reader.line(line)

    def _bootstrap(self) -> None:
        etc = self._work / "apt"
        etc.mkdir()
        sources = machine_sources(self._profile.suite).write(etc)
        options = etc / "machine.conf"
        options.write_text(machine_apt_options(), encoding="utf-8")
        downloads = self._cache.root / DOWNLOADS
        downloads.mkdir(exist_ok=True)
        mount = f'mkdir -p "$1/var/cache/apt/archives" && mount --bind {_quote(downloads)} "$1/var/cache/apt/archives"'
        argv = ["mmdebstrap", "--verbose", "--mode=root", "--variant=minbase", "--format=directory"]
        argv += ["--include=" + ",".join(self._profile.packages), "--skip=essential/unlink,cleanup/apt/cache"]
        argv += [f"--aptopt={option}" for option in (*_APT_OPTIONS, options)]
        argv += [f"--dpkgopt={option}" for option in _DPKG_OPTIONS]
        argv += [f"--setup-hook={mount}", self._profile.suite, str(self._root), *map(str, sources)]
        self._step("mmdebstrap", argv, network=True)

    def _copy_files(self) -> None:
        archive = self._work / "files.tar"
        with tarfile.open(archive, "w") as tar:
            for file in self._profile.files:
                entry = tarfile.TarInfo(file.path)
                entry.size, entry.mode, entry.mtime = len(file.data), file.mode, _FILE_TIME
                tar.addfile(entry, io.BytesIO(file.data))
        # The root's own tar, inside the root: a link in the root cannot lead a file out of it.
        self._step("copying files", ["chroot", str(self._root), "tar", "-x", "-f", "-"], stdin=archive)

    def _bake(self) -> None:
        script = self._work / "bake.sh"
        script.write_bytes(self._profile.bake)
        self._step("bake.sh", ["sh", "-c", _BAKE, "bake", str(self._root), str(script)])

    def _scrub(self) -> None:
        for pattern in _SCRUBBED:
            for path in self._root.glob(pattern):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _versions(self) -> dict[str, str]:
        lines: list[str] = []
        query = ["dpkg-query", "-W", "-f", r"${Package}:${Architecture} ${Version}\n"]
        code = run_contained(["chroot", str(self._root), *query], on_line=lines.append, lock_fd=self._lock_fd)
        if code != 0:
            raise ImageError(f"building {self._profile.name} failed: dpkg-query ended with code {code}: {lines[-1:]}")
        return dict(sorted((name, version) for name, _, version in (line.partition(" ") for line in lines)))

    def _publish(self) -> Image:
        packages = self._versions()
        image = Image(
            profile=self._profile.name,
            digest=image_digest(self._profile.definition_hash, packages),
            root=self._root,
            definition_hash=self._profile.definition_hash,
            packages=packages,
            size_bytes=_disk_size(self._root),
            created_at=time.time(),
        )
        ready = self._work / "image"
        ready.mkdir(mode=0o755)
        self._root.rename(ready / "root")
        write_manifest(ready, image)
        # Every file of the root must be on the disk before the name that promises it.
        subprocess.run(["sync", "-f", str(ready)], check=True)
        target = self._cache.folder(image)
        if target.exists():
            # `find` did not accept what lies there, so it is damaged.
            remove_tree(target)
        ready.rename(target)
        _sync_folder(self._cache.root)
        self._reader.enter("finish", "done")
        return read_image(target)


def _quote(path: Path) -> str:
    text = str(path.resolve())
    if "'" in text:
        raise ImageError(f"the images folder must not have a quote in its name: {text}")
    return f"'{text}'"


def _disk_size(root: Path) -> int:
    seen: set[int] = set()
    total = 0
    for folder, _, names in os.walk(root):
        for name in [*names, "."]:
            entry = os.lstat(Path(folder) / name)
            if entry.st_ino not in seen:
                seen.add(entry.st_ino)
                total += entry.st_blocks * 512
    return total


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
