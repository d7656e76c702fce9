"""A bundle: a task with everything that its admission needs, frozen and named by its content.

On disk a bundle is a folder::

    NAME/bundle.json          everything but the assets
    NAME/assets/<sha256>      files that setup steps copy into the desktop

The id is the sha256 of the canonical JSON of all that `Bundle` holds, so any change makes another bundle that has to be
proven anew. Assets are in it by their hashes. Split and gate results are not: they are facts about a bundle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.policies.script import ScriptStep
from sandbox.actions import Action
from sandbox.evidence import Evidence
from verigen.assets import Assets, FolderAssets
from verigen.canonical import content_hash
from verigen.errors import AssetMissing, BundleError
from verigen.task import AssetStep, SetupStep, Task

__all__ = [
    "Bundle",
    "Example",
    "Examples",
    "Negative",
    "Provenance",
    "Script",
    "Solution",
    "load_bundle",
    "parse_bundle",
    "save_bundle",
    "shipped_bundles",
]

BUNDLE_FILE = "bundle.json"
ASSETS = "assets"
SHIPPED = Path(__file__).parent / "bundles"

Script = Annotated[tuple[ScriptStep, ...], Field(min_length=1)]
"""What is done through the screen, ended by `done`, `infeasible` or `answer`."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Solution(_Frozen):
    """Another right way to do the task."""

    name: str = Field(min_length=1)
    script: Script


class Negative(_Frozen):
    """An attempt that must not pass: a near miss, or a shortcut around the work."""

    name: str = Field(min_length=1)
    why: str = Field(min_length=1)
    """What is wrong with it, for a person."""
    before: tuple[SetupStep, ...] = ()
    """A shortcut taken behind the screen, before the script."""
    script: Script


class Example(_Frozen):
    """Evidence of one end state, and how the episode ended."""

    evidence: Evidence
    final: Action | None


class Examples(_Frozen):
    """Recorded from real runs (verigen.record); they let the checks be tested without a desktop."""

    golden: Example
    """After the oracle."""
    initial: Example
    """Before anything was done."""


class Provenance(_Frozen):
    """Where a bundle comes from."""

    generator: str = Field(min_length=1)
    """What made it, with its version: `hand`, a skill pack, a model."""
    parents: tuple[str, ...] = ()
    """Ids of the bundles that it was composed or split from."""
    parameters: dict[str, Any] = {}
    """What the generator was asked for, its seed included."""


class Bundle(_Frozen):
    """A task with its solutions, its near misses and where it comes from."""

    task: Task
    oracle: Script
    """A solution through the screen."""
    alternatives: tuple[Solution, ...] = ()
    negatives: tuple[Negative, ...] = ()
    examples: Examples | None = None
    """None until they are recorded; no bundle is admitted without."""
    provenance: Provenance
    seed_state: str = Field(min_length=1)
    """Names the family of start states; training and held-out tasks must not share one."""

    @property
    def id(self) -> str:
        """sha256 of the canonical JSON."""
        return content_hash(self.model_dump(mode="json"))

    @property
    def assets(self) -> frozenset[str]:
        """Hashes of the assets that its steps copy."""
        steps = [*self.task.setup, *(step for negative in self.negatives for step in negative.before)]
        return frozenset(step.sha256 for step in steps if isinstance(step, AssetStep))


def parse_bundle(document: Any, *, source: str = "the bundle") -> Bundle:
    """Build a bundle from its JSON form.

    Args:
        source: names the document in messages.

    Raises:
        BundleError: the message names every wrong field.
    """
    try:
        return Bundle.model_validate(document)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc'])) or 'document'}: {one['msg']}" for one in error.errors()]
        raise BundleError(f"{source} is not a bundle: {'; '.join(problems)}") from error


def load_bundle(folder: Path) -> tuple[Bundle, Assets]:
    """Read a bundle's folder. Assets are read, and their hashes checked, when they are used.

    Raises:
        BundleError: the message names the file, and the field if one is wrong.
    """
    path = folder / BUNDLE_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON: {error}") from error
    return parse_bundle(document, source=str(path)), FolderAssets(folder / ASSETS)


def save_bundle(bundle: Bundle, folder: Path, assets: Assets) -> None:
    """Write a bundle's folder, its assets included. Reading it back gives the same id.

    Raises:
        BundleError: an asset cannot be had, or the folder cannot be written.
    """
    try:
        contents = {name: assets.get(name) for name in sorted(bundle.assets)}
    except AssetMissing as error:
        raise BundleError(f"bundle {bundle.task.name!r} cannot be written: {error}") from error
    text = json.dumps(bundle.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            assert hashlib.sha256(data).hexdigest() == name
            (folder / ASSETS).mkdir(exist_ok=True)
            (folder / ASSETS / name).write_bytes(data)
        (folder / BUNDLE_FILE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BundleError(f"cannot write {folder}: {error.strerror}") from error


def shipped_bundles() -> Sequence[Path]:
    """Folders of the hand-made bundles that come with Frontdesk, in alphabetical order."""
    return sorted(path.parent for path in SHIPPED.glob(f"*/{BUNDLE_FILE}"))
