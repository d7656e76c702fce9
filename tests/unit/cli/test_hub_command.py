"""`frontdesk hub`, without a desktop."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import BadRequest
from sandbox.hub.token import own_token, read_token, token_for
from tests.support.command_line import CommandLine


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "desk.example"])
def test_other_machines_are_let_in_only_with_a_token_of_the_owners(host: str, frontdesk: CommandLine) -> None:
    ran = frontdesk(f"hub serve --host {host}")
    assert ran.code == 2
    assert "--token-file" in ran.err
    assert not (frontdesk.home / "run" / "hub.token").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_gets_a_token_of_its_own(host: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_for(host, None, path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_for(host, None, path) == own_token(path) == token


def test_a_token_file_must_be_private_and_long_enough(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(BadRequest, match="No such file"):
        read_token(path)
    path.write_text("x" * 40 + "\n")
    path.chmod(0o644)
    with pytest.raises(BadRequest, match="chmod 600"):
        token_for("0.0.0.0", path, tmp_path / "own")
    path.chmod(0o600)
    assert token_for("0.0.0.0", path, tmp_path / "own") == "x" * 40
    path.write_text("short")
    with pytest.raises(BadRequest, match="16 characters"):
        read_token(path)


def test_a_hub_that_is_not_there_is_a_failure_with_advice(frontdesk: CommandLine) -> None:
    ran = frontdesk("hub status")
    assert ran.code == 2
    assert "FRONTDESK_HUB_TOKEN_FILE" in ran.err
    (frontdesk.home / "run").mkdir(parents=True, exist_ok=True)
    own_token(frontdesk.home / "run" / "hub.token")
    ran = frontdesk("hub status --hub 127.0.0.1:1 --json")
    assert ran.code == 1
    assert ran.json["error"]["type"] == "HubLost"
    assert "frontdesk hub serve" in ran.json["error"]["message"]
    assert frontdesk("hub status --hub nonsense").code == 2
