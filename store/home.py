"""The state directory: where everything that Frontdesk keeps lives.

::

    $FRONTDESK_HOME
    ├── blobs/           content-addressed files (store.blobs)
    ├── trajectories/    one record per attempt (store.trajectories)
    ├── catalog.sqlite   tasks, proofs, episodes, runs (store.catalog), unless $FRONTDESK_CATALOG names a database
    ├── images/          desktop images
    ├── run/             runtime state of live desktops
    ├── runs/            training runs: checkpoints, logs
    └── reports/         what benches, evaluations and quickstart print

It belongs to one user: `ensure` makes it with mode 0700.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from store.errors import HomeError

__all__ = ["CATALOG_VARIABLE", "HOME_VARIABLE", "Home"]

HOME_VARIABLE = "FRONTDESK_HOME"
CATALOG_VARIABLE = "FRONTDESK_CATALOG"


@dataclass(frozen=True, slots=True)
class Home:
    """A state directory. Making the object touches nothing; `ensure` makes the directories."""

    path: Path
    """Absolute."""

    def __post_init__(self) -> None:
        try:
            path = Path(self.path).expanduser()
        except RuntimeError as error:  # a user without a home directory, or ~name for nobody
            raise HomeError(
                f"cannot tell which directory {self.path} is ({error}). Set {HOME_VARIABLE} to an absolute path"
            ) from error
        object.__setattr__(self, "path", path.absolute())

    @classmethod
    def default(cls) -> Home:
        """`$FRONTDESK_HOME`, or `~/.local/share/frontdesk` when that is unset or empty."""
        return cls(Path(os.environ.get(HOME_VARIABLE) or "~/.local/share/frontdesk"))

    @property
    def blobs(self) -> Path:
        """Content-addressed files."""
        return self.path / "blobs"

    @property
    def trajectories(self) -> Path:
        """Records of attempts."""
        return self.path / "trajectories"

    @property
    def images(self) -> Path:
        """Desktop images."""
        return self.path / "images"

    @property
    def run(self) -> Path:
        """Runtime state of live desktops."""
        return self.path / "run"

    @property
    def runs(self) -> Path:
        """Training runs."""
        return self.path / "runs"

    @property
    def reports(self) -> Path:
        """Written reports."""
        return self.path / "reports"

    @property
    def catalog_url(self) -> str:
        """The catalog's database: `$FRONTDESK_CATALOG`, or a SQLite file in this directory."""
        return os.environ.get(CATALOG_VARIABLE) or f"sqlite:///{self.path / 'catalog.sqlite'}"

    def ensure(self) -> Home:
        """Make the directories that are not there yet and return this home.

        Raises:
            HomeError: they cannot be made or written.
        """
        try:
            for directory in (
                self.path,
                self.blobs,
                self.trajectories,
                self.images,
                self.run,
                self.runs,
                self.reports,
            ):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Only a write shows that one can write: permission bits say nothing of read-only mounts, or to root.
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise HomeError(
                f"cannot use {self.path} as the state directory ({error.strerror or error}). "
                f"Set {HOME_VARIABLE} to a directory that you may write"
            ) from error
        return self
