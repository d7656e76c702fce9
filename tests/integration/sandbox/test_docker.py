"""What is Docker's own: containers that end with their owner, what is reaped, and images that are imported whole."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox import errors
from sandbox.backends.docker import DESKTOP, EPOCH, OWNER, RUNTIME, DockerBackend
from sandbox.backends.docker_engine import Engine, EngineError, connect
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache
from sandbox.image.docker import docker_image, import_image
from tests.support.command_line import CommandLine
from tests.support.dockerd import CannotRun, run_dockerd
from tests.support.live import sh

pytestmark = pytest.mark.desktop

TINY = DesktopSpec(width=200, height=150)


@pytest.fixture
def engine(dockerd: str) -> Iterator[Engine]:
    connected = connect(dockerd)
    yield connected
    connected.close()


@pytest.fixture
async def own(dockerd: str, images: ImageCache, runtime_dir: Path) -> AsyncIterator[DockerBackend]:
    """A backend of the test's own."""
    made = DockerBackend(images, runtime_dir, base_url=dockerd)
    try:
        yield made
    finally:
        await made.close()


def ours(engine: Engine, runtime_dir: Path) -> list[str]:
    """The names of the containers of a runtime directory."""
    return [name for name, _ in engine.containers(f"{RUNTIME}={runtime_dir}")]


def until(check: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    ends_at = time.monotonic() + timeout_s
    while not check() and time.monotonic() < ends_at:
        time.sleep(0.05)
    return check()


async def test_a_container_is_labelled_and_nothing_is_left_after_close(
    own: DockerBackend, engine: Engine, runtime_dir: Path
) -> None:
    desktop = await own.boot(TINY)
    await desktop.spawn(["bash", "-c", "trap '' TERM INT HUP; setsid sleep 600 & sleep 600"])
    pids = desktop.cgroup.processes()
    ((name, labels),) = engine.containers(f"{RUNTIME}={runtime_dir}")
    assert name == f"frontdesk-{desktop.id}"
    assert (labels[DESKTOP], labels[EPOCH]) == (desktop.id, "1")
    assert (runtime_dir / labels[OWNER] / desktop.id / "ctl" / "probe.sock").exists()
    await desktop.close()
    await desktop.close()
    assert ours(engine, runtime_dir) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert (await desktop.health()).alive is False
    await own.close()
    assert list(runtime_dir.iterdir()) == []
    with pytest.raises(errors.DesktopError, match="closed"):
        await own.boot(TINY)


@pytest.mark.parametrize("end", ["close", "forget", "kill"])
def test_no_container_outlives_its_owner(
    dockerd: str, engine: Engine, images: ImageCache, runtime_dir: Path, end: str
) -> None:
    argv = [sys.executable, "-m", "tests.support.backend_process", str(runtime_dir)]
    argv += ["wait" if end == "kill" else end, dockerd]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        if end == "kill":
            assert len(ours(engine, runtime_dir)) == 2
            owner.send_signal(signal.SIGKILL)
    assert until(lambda: ours(engine, runtime_dir) == [])
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in told["pids"]))
    left = [path.name for path in runtime_dir.iterdir()]
    assert len(left) == (0 if end == "close" else 1)
    reaper = DockerBackend(images, runtime_dir, base_url=dockerd)
    assert sorted(asyncio.run(reaper.reap())) == ([] if end == "close" else sorted(told["ids"]))
    assert list(runtime_dir.iterdir()) == []


async def test_a_container_whose_owner_is_gone_is_reaped_and_others_are_not(
    own: DockerBackend, engine: Engine, images: ImageCache, dockerd: str, runtime_dir: Path
) -> None:
    desktop = await own.boot(TINY)
    image = docker_image(images.require("light"))
    for directory, name in ((runtime_dir, "dead"), (runtime_dir / "elsewhere", "other")):
        labels = {OWNER: "docker-1-dead", RUNTIME: str(directory), DESKTOP: name}
        engine.create(name, image, ["sleep", "600"], {"NetworkMode": "none"}, labels)
        engine.start(name)
    try:
        reaper = DockerBackend(images, runtime_dir, base_url=dockerd)
        assert await reaper.reap() == ["dead"]
        assert await reaper.reap() == []
        await reaper.close()
        assert ours(engine, runtime_dir) == [f"frontdesk-{desktop.id}"]
        assert ours(engine, runtime_dir / "elsewhere") == ["other"]
        assert await sh(desktop, "echo on") == "on\n"
    finally:
        engine.remove("other")
        engine.remove("dead")


async def test_a_boot_that_fails_says_why_and_leaves_nothing(
    own: DockerBackend, engine: Engine, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = await own.boot(TINY)
    with monkeypatch.context() as patched:
        broken = "import sys; sys.exit('the spawner is broken')"
        patched.setattr("sandbox.backends.docker.COMMAND", ["/usr/bin/python3", "-c", broken])
        with pytest.raises(errors.BootFailed, match=r"(?s)ended with 1.*the spawner is broken"):
            await own.boot(TINY)
        patched.setattr("sandbox.backends.docker.COMMAND", ["/no/such/program"])
        with pytest.raises(errors.BootFailed, match="no such file"):
            await own.boot(TINY)
    with pytest.raises(errors.BootFailed, match="not ready within"):
        await own.boot(TINY, deadline_s=0.05)
    booting = asyncio.create_task(own.boot(TINY))
    await asyncio.sleep(0.05)
    booting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await booting).close()  # a quick machine may have been ready before it was cancelled
    assert ours(engine, runtime_dir) == [f"frontdesk-{keep.id}"]
    assert [path.name for path in next(runtime_dir.iterdir()).iterdir() if path.name not in ("lock", "code")] == [
        keep.id
    ]


@pytest.mark.parametrize("removed", [False, True])
async def test_a_desktop_that_ends_before_it_is_looked_at_says_why(
    own: DockerBackend, engine: Engine, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    inspect = docker.APIClient.inspect_container

    def late(api: docker.APIClient, name: str) -> Any:
        """Look when the container is gone; or tell what the daemon tells between its end and that moment."""
        with contextlib.suppress(docker.errors.NotFound):
            while inspect(api, name):
                time.sleep(0.02)
        return inspect(api, name) if removed else {"State": {"Pid": 0}}

    monkeypatch.setattr(docker.APIClient, "inspect_container", late)
    broken = "import sys; sys.exit('the spawner is broken')"
    monkeypatch.setattr("sandbox.backends.docker.COMMAND", ["/usr/bin/python3", "-c", broken])
    with pytest.raises(errors.BootFailed, match=r"(?s)ended with 1.*the spawner is broken"):
        await own.boot(TINY)
    assert ours(engine, runtime_dir) == []


async def test_out_of_memory_is_told(own: DockerBackend) -> None:
    desktop = await own.boot(TINY.model_copy(update={"memory_mb": 160}))
    hog = "block = []\nwhile True: block.append(bytearray(1 << 20))"
    with contextlib.suppress(errors.DesktopError):
        await desktop.exec(["python3", "-c", hog], user="root", deadline_s=20)
    health = await desktop.health()
    assert int(health.detail.get("oom_kills", "0")) or "lack of memory" in health.detail["box"]


async def test_a_container_killed_by_somebody_else_is_a_lost_desktop(own: DockerBackend, engine: Engine) -> None:
    desktop = await own.boot(TINY)
    running = asyncio.create_task(desktop.exec(["sleep", "60"]))
    await asyncio.sleep(0.2)
    engine.remove(f"frontdesk-{desktop.id}")
    with pytest.raises(errors.DesktopLost, match="first process ended with -9"):
        await running
    await desktop.close()


async def test_an_image_that_docker_lacks_and_a_daemon_that_ends_are_told(
    images: ImageCache, runtime_dir: Path, dockerd: str
) -> None:
    # Where the tests' daemon runs another can; this one has no image, and it ends while the backend is in use.
    with run_dockerd() as url:
        backend = DockerBackend(images, runtime_dir, base_url=url)
        with pytest.raises(errors.ImageError, match="frontdesk image build light --backend docker"):
            await backend.boot(TINY)
    with pytest.raises(errors.DesktopError, match="the docker daemon of this backend ended"):
        await backend.boot(TINY)
    await backend.close()
    assert list(runtime_dir.iterdir()) == []


def test_an_image_is_imported_whole_or_not_at_all(
    engine: Engine, images: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = images.require("light")
    cache = ImageCache(tmp_path)
    assert import_image(engine, images, image) is False  # it is there
    gone = dataclasses.replace(image, digest="0" * 64, root=tmp_path / "nothing")
    with pytest.raises(errors.ImageError, match="cannot read the image"):
        import_image(engine, cache, gone)
    assert not engine.has_image(docker_image(gone))
    small = tmp_path / "small"
    small.mkdir()
    (small / "file").write_bytes(os.urandom(3 << 20))
    cut = dataclasses.replace(gone, root=small)

    def stop(sent: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_image(engine, cache, cut, progress=stop)
    assert not engine.has_image(docker_image(cut))
    sent: list[int] = []
    assert import_image(engine, cache, cut, progress=sent.append) is True
    assert sent[-1] > 3 << 20
    assert engine.has_image(docker_image(cut))


def test_the_command_line_imports_an_image(
    dockerd: str,
    images: ImageCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DOCKER_HOST", dockerd)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "images").symlink_to(images.root)
    frontdesk = CommandLine(tmp_path / "home", monkeypatch, capsys)
    ran = frontdesk("image build light --backend docker --json")
    name = docker_image(images.require("light"))
    assert ran.json["docker"] == {"imported": False, "name": name}
    assert name in frontdesk("image build light --backend docker").out


def test_what_is_missing_is_named_with_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(url: str | None = None) -> str:
        with pytest.raises(errors.MissingRequirement) as caught:
            connect(url)
        return str(caught.value)

    nowhere = f"unix://{tmp_path}/docker.sock"
    assert "systemctl start docker" in said(nowhere)
    monkeypatch.setenv("DOCKER_HOST", nowhere)
    assert f"no docker daemon answers at {tmp_path}/docker.sock (No such file" in said()
    (tmp_path / "docker.sock").write_text("not a socket")
    assert "(Connection refused)" in said()
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "which", lambda name, path=None: None)
        assert "apt-get install docker.io" in said()
    assert "DOCKER_HOST=unix:///var/run/docker.sock" in said("tcp://192.0.2.1:2375")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 1000)
        assert "sudo frontdesk" in said()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "docker", None)
        assert ".[docker]" in said()


def test_a_daemon_that_refuses_is_one_kind_of_error(engine: Engine) -> None:
    with pytest.raises(EngineError, match="No such container"):
        engine.start("no-such-container")
    engine.remove("no-such-container")


def test_without_a_daemon_the_tests_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(CannotRun, match=r"apt-get install docker\.io"), run_dockerd():
        pass
