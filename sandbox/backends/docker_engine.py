"""The Docker daemon of this machine, as far as desktops need it: blocking calls, one error type.

The daemon must run on this very machine and as root: a desktop's probe is reached through a directory that both sides
see, and what a container uses is read from its control group.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sandbox.errors import MissingRequirement

__all__ = ["Engine", "EngineError", "connect"]

P = ParamSpec("P")
T = TypeVar("T")
CALL_TIMEOUT_S = 60
IMPORT_TIMEOUT_S = 1800
REMOVE_TIMEOUT_S = 20.0
DEFAULT_SOCKET = "unix:///var/run/docker.sock"
START = "systemctl start docker (or run dockerd); if its socket is elsewhere, set DOCKER_HOST=unix://PATH"


class EngineError(Exception):
    """The daemon refused a call, or is gone; the message has its own words."""


def _told(call: Callable[P, T]) -> Callable[P, T]:
    """Turn everything that the SDK raises into EngineError."""

    @functools.wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        import docker
        import requests

        try:
            return call(*args, **kwargs)
        except docker.errors.APIError as error:
            raise EngineError(str(error.explanation or error)) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise EngineError(f"the docker daemon does not answer: {error}") from error

    return wrapped


def connect(base_url: str | None = None) -> Engine:
    """Reach the daemon.

    Args:
        base_url: `unix://` and the path of its socket; the default is `$DOCKER_HOST`, else Docker's own default.

    Raises:
        MissingRequirement: it cannot be used; the message says what to do.
    """
    try:
        import docker
    except ImportError as error:
        fix = ".venv/bin/pip install -c constraints.txt -e '.[docker]'"
        raise MissingRequirement("the docker package for Python is not installed", fix=fix) from error
    url = base_url or os.environ.get("DOCKER_HOST") or DEFAULT_SOCKET
    if not url.startswith("unix://"):
        raise MissingRequirement(
            f"the docker daemon at {url} is not one of this machine: desktops share a directory with it",
            fix=f"run Frontdesk on the daemon's machine with DOCKER_HOST={DEFAULT_SOCKET}",
        )
    if os.geteuid() != 0:
        raise MissingRequirement(
            "docker desktops need root (each has users of its own, and a directory that only its probe may enter)",
            fix="run the same command as root, e.g. `sudo frontdesk ...`",
        )
    _require_daemon(Path(url.removeprefix("unix://")))
    try:
        api = docker.APIClient(base_url=url, version="auto", timeout=CALL_TIMEOUT_S)
    except docker.errors.DockerException as error:
        raise MissingRequirement(f"what answers at {url} is no docker daemon: {error}", fix=START) from error
    options = api.info().get("SecurityOptions") or []
    if any("rootless" in option for option in options):
        api.close()
        raise MissingRequirement(
            f"the docker daemon at {url} runs without root, so desktops cannot have users of their own",
            fix="start docker as root and set DOCKER_HOST to its socket",
        )
    return Engine(api, url)


def _require_daemon(path: Path) -> None:
    """Check that something listens where the daemon should.

    Raises:
        MissingRequirement: nothing does.
    """
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(str(path))
        except OSError as error:
            if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
                raise MissingRequirement("Docker is not installed", fix="apt-get install docker.io") from error
            raise MissingRequirement(f"no docker daemon answers at {path} ({error.strerror})", fix=START) from error


class Engine:
    """A connection to the daemon. Every method may be called from any thread and raises EngineError."""

    def __init__(self, api: Any, url: str) -> None:
        self._api = api
        self._url = url

    @_told
    def has_image(self, tag: str) -> bool:
        """Whether there is an image of this name."""
        return bool(self._api.images(name=tag))

    @_told
    def import_image(self, name: str, tag: str, tar: Iterable[bytes]) -> None:
        """Make an image of a tar stream; when the stream raises, none is made."""
        import docker

        # A client of its own, with time to write gigabytes to the disk.
        api = docker.APIClient(base_url=self._url, version=self._api.api_version, timeout=IMPORT_TIMEOUT_S)
        with contextlib.closing(api):
            told: str = api.import_image_from_stream(tar, repository=name, tag=tag)
        if '"errorDetail"' in told:
            raise EngineError(f"the image was not imported: {told.strip()[-500:]}")

    @_told
    def create(self, name: str, image: str, command: list[str], host: dict[str, Any], labels: dict[str, str]) -> None:
        """Make a container that is not started yet; its first process is to be fed through `attach`.

        Args:
            host: the HostConfig of Docker's API.
        """
        self._api.create_container(
            image,
            command=command,
            name=name,
            hostname="desktop",
            user="0:0",
            working_dir="/",
            stdin_open=True,
            labels=labels,
            host_config=host,
            use_config_proxy=False,
        )

    @_told
    def put(self, name: str, tar: bytes) -> None:
        """Unpack an archive into a container's root."""
        self._api.put_archive(name, "/", tar)

    @_told
    def attach(self, name: str) -> socket.socket:
        """A stream to the first process of a container not started yet; closing it closes that one's standard input."""
        stream = self._api.attach_socket(name, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        try:
            return socket.socket(fileno=os.dup(stream.fileno()))
        finally:
            stream._response.close()

    @_told
    def start(self, name: str) -> int:
        """Start a container; returns the pid of its first process on this machine, 0 if that one has ended already."""
        import docker

        self._api.start(name)
        try:
            return int(self._api.inspect_container(name)["State"]["Pid"])
        except docker.errors.NotFound:  # removed already, as such containers are when they end
            return 0

    @_told
    def remove(self, name: str) -> None:
        """Kill and remove a container; returns when it is gone. Removing what is not there is no error."""
        import docker

        until = time.monotonic() + REMOVE_TIMEOUT_S
        while True:
            try:
                self._api.remove_container(name, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:  # the daemon is removing it already
                if error.status_code != 409 or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    @_told
    def containers(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """(name, labels) of every container with a label `KEY=VALUE`, running or not."""
        found = self._api.containers(all=True, filters={"label": label})
        return [(item["Names"][0].lstrip("/"), item["Labels"]) for item in found]

    @_told
    def events(self, label: str) -> Iterator[dict[str, Any]]:
        """What happens to the containers with a label, as it happens; ends with the daemon or its own `close`."""
        stream: Iterator[dict[str, Any]] = self._api.events(filters={"label": label, "type": "container"}, decode=True)
        return stream

    def close(self) -> None:
        """Hang up."""
        self._api.close()
