"""Commands whose desktops run in Docker (`--backend docker`), with a real daemon; and what they say without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.backends.docker import RUNTIME
from sandbox.backends.docker_engine import Engine, connect
from sandbox.backends.local import LocalBackend
from sandbox.image import ImageCache
from tests.support.backends import cannot_run, missing_for_desktops
from tests.support.command_line import CommandLine, command_line_with_images
from tests.support.machine_state import wait_until_gone
from verigen.bundle import load_bundle, shipped_bundles

pytestmark = pytest.mark.desktop

# The one that is solved by saying that it cannot be done: its gates are the quickest.
NAME = next(folder.name for folder in shipped_bundles() if not load_bundle(folder)[0].task.feasible)
PLAYED = "galculator-boxes-with-discount"


@pytest.fixture
def frontdesk(
    images: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """Runs `frontdesk` commands of which none may boot a desktop outside Docker."""
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)

    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a desktop was booted outside Docker")

    monkeypatch.setattr(LocalBackend, "boot", refuse)
    with command_line_with_images(images, tmp_path, monkeypatch, capsys) as made:
        yield made


@pytest.fixture
def engine(dockerd: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The daemon that commands find."""
    monkeypatch.setenv("DOCKER_HOST", dockerd)
    connected = connect(dockerd)
    yield connected
    connected.close()


def containers(engine: Engine, frontdesk: CommandLine) -> list[str]:
    return [name for name, _ in engine.containers(f"{RUNTIME}={frontdesk.home / 'run'}")]


def test_a_desk_is_a_container_until_it_is_closed(frontdesk: CommandLine, engine: Engine) -> None:
    opened = frontdesk("desk open --backend docker --size 480x360 --json")
    assert opened.code == 0, opened.err
    assert containers(engine, frontdesk) == [f"frontdesk-{opened.json['desktop']}"]
    assert frontdesk("desk exec id -un").out == "user\n"
    assert frontdesk("desk type hello --json").code == 0
    assert frontdesk("desk shot --json").json["width"] == 480
    (listed,) = frontdesk("desk list --json").json["desks"]
    assert (listed["alive"], listed["backend"]) == (True, "docker")
    assert "480x360, docker" in frontdesk("desk list").out
    assert frontdesk("desk close").code == 0
    assert containers(engine, frontdesk) == []
    assert wait_until_gone(frontdesk.home) == []


def test_a_task_is_proven_on_desktops_in_docker(
    frontdesk: CommandLine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTDESK_BACKEND", "docker")
    ran = frontdesk(f"tasks verify {NAME} --json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.json["proven"] == 1
    assert containers(engine, frontdesk) == []


def test_an_episode_is_the_same_when_it_is_played_again(frontdesk: CommandLine, engine: Engine) -> None:
    ran = frontdesk(f"episodes run {PLAYED} --backend docker --json")
    (episode,) = ran.json["episodes"]
    assert (ran.code, episode["outcome"]) == (0, "pass"), ran.err
    played = frontdesk(f"episodes replay {episode['id']} --fast --backend docker --json")
    assert played.json["same"], played.out


COMMANDS = [
    "desk open",
    f"tasks verify {NAME}",
    f"episodes run {NAME}",
    "synth --count 1",
    "eval {policy}",
    "train {run}",
    "quickstart --check",
    "hub serve --port 0",
]


@pytest.fixture(params=COMMANDS)
def line(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A command that needs desktops."""
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "config.json").write_text("{}")
    (tmp_path / "run.toml").write_text('name = "mine"\n')
    return f"{request.param.format(policy=tmp_path / 'policy', run=tmp_path / 'run.toml')} --backend docker"


def test_without_a_daemon_one_message_says_so(
    frontdesk: CommandLine, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    ran = frontdesk(line)
    assert ran.code == 1
    assert ran.err.count(f"no docker daemon answers at {tmp_path}/docker.sock") == 1
    assert "systemctl start docker" in ran.err
    assert "Traceback" not in ran.err


def test_without_the_image_one_message_says_how_to_import_it(
    frontdesk: CommandLine, engine: Engine, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "has_image", lambda self, tag: False)
    ran = frontdesk(line)
    assert ran.code == 1
    assert ran.err.count("docker does not have the desktop image 'light'") == 1
    assert "frontdesk image build light --backend docker" in ran.err
