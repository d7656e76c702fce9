"""Commands: how they end, what they print, and what their children may hold on to."""

from __future__ import annotations

import asyncio
import signal

import pytest

from sandbox import errors
from sandbox.backends.owned import OwnedDesktop
from tests.support.live import sh, wait_for

pytestmark = pytest.mark.desktop


async def test_a_command_tells_its_exit_code_or_signal(shared: OwnedDesktop) -> None:
    for code in (0, 1, 42, 255):
        result = await shared.exec(["bash", "-c", f"exit {code}"])
        assert (result.exit_code, result.timed_out, result.ok) == (code, False, code == 0)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        result = await shared.exec(["bash", "-c", f"kill -{int(number)} $$"])
        assert result.exit_code == -number


async def test_arguments_and_input_arrive_as_they_are(shared: OwnedDesktop) -> None:
    arguments = ["", " a  b ", "$HOME", "'\"`\\", "*", "-n", "line\nline", "é中😀"]
    printed = await shared.exec(["printf", "%s\\0", *arguments])
    assert printed.stdout.decode().split("\0")[:-1] == arguments
    data = bytes(range(256)) * 4000
    echoed = await shared.exec(["cat"], stdin=data)
    assert echoed.stdout == data
    assert (await shared.exec(["wc", "-c"])).stdout.strip() == b"0"


async def test_both_outputs_can_be_large(shared: OwnedDesktop) -> None:
    command = "head -c 900000 /dev/zero | tr '\\0' o & head -c 800000 /dev/zero | tr '\\0' e >&2; wait"
    result = await shared.exec(["bash", "-c", command])
    assert (result.stdout, result.stderr) == (b"o" * 900_000, b"e" * 800_000)
    assert not result.truncated


async def test_output_beyond_the_limit_is_dropped_and_said_so(shared: OwnedDesktop) -> None:
    result = await shared.exec(["bash", "-c", "echo 123456789; echo err >&2"], max_output=5)
    assert (result.stdout, result.stderr, result.truncated) == (b"12345", b"err\n", True)
    exact = await shared.exec(["printf", "12345"], max_output=5)
    assert (exact.stdout, exact.truncated) == (b"12345", False)


async def test_a_command_that_ignores_its_input_ends_well(shared: OwnedDesktop) -> None:
    result = await shared.exec(["bash", "-c", "exec <&-; echo done"], stdin=b"x" * 1_000_000)
    assert (result.exit_code, result.stdout) == (0, b"done\n")


async def test_the_deadline_kills_the_whole_group(shared: OwnedDesktop) -> None:
    command = "trap '' TERM INT HUP; sleep 4711 & sleep 4712; echo never"
    result = await shared.exec(["bash", "-c", command], deadline_s=0.5)
    assert result.timed_out
    assert result.exit_code is None
    assert b"never" not in result.stdout
    assert await sh(shared, "pgrep -f 'sleep 471[12]' || true") == ""


async def test_output_before_the_deadline_is_kept(shared: OwnedDesktop) -> None:
    result = await shared.exec(["bash", "-c", "echo early; sleep 100"], deadline_s=0.5)
    assert (result.stdout, result.timed_out) == (b"early\n", True)


async def test_a_background_child_neither_delays_nor_dies(shared: OwnedDesktop) -> None:
    child = "(for n in 1 2 3 4 5 6; do sleep 0.1; echo $n || exit 1; done; touch child-ended) &"
    result = await shared.exec(["bash", "-c", f"{child} echo parent"], deadline_s=5)
    assert result.stdout.startswith(b"parent")
    assert await sh(shared, "ls child-ended 2>/dev/null || true") == ""

    async def ended() -> str:
        return await sh(shared, "ls child-ended 2>/dev/null || true")

    await wait_for("the child to have printed all it wanted", ended)


async def test_pipes_break_as_programs_expect(shared: OwnedDesktop) -> None:
    result = await shared.exec(["bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}"], deadline_s=5)
    assert result.stdout == b"y\n141\n"


async def test_directory_and_environment(shared: OwnedDesktop) -> None:
    assert await sh(shared, "pwd") == "/home/user\n"
    result = await shared.exec(
        ["bash", "-c", "pwd; echo $COLOUR; echo $DISPLAY"], cwd="/usr/lib", env={"COLOUR": "é b"}
    )
    assert result.stdout.decode() == "/usr/lib\né b\n:0\n"
    root = await shared.exec(["bash", "-c", "pwd; id -u; echo $HOME $DISPLAY"], user="root")
    assert root.stdout.decode() == "/root\n0\n/root\n"


async def test_users_differ(shared: OwnedDesktop) -> None:
    assert await sh(shared, "id -un") == "user\n"
    assert await sh(shared, "echo x > /etc/mark && cat /etc/mark", user="root") == "x\n"
    refused = await shared.exec(["bash", "-c", "echo x > /etc/mark2"])
    assert not refused.ok


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ([], {}, "an empty command"),
        (["no-such-program"], {}, "no-such-program: No such file"),
        (["/etc/passwd"], {}, "Permission denied"),
        (["true"], {"cwd": "/nowhere"}, "cannot work in /nowhere: No such file"),
        (["true"], {"cwd": "/root"}, "cannot work in /root: Permission denied"),
        (["echo", "a\0b"], {}, "null byte"),
        (["true"], {"env": {"a=b": ""}}, "environment variable name"),
        (["echo", "x" * 200_000], {}, "put data in a file"),
    ],
)
async def test_what_cannot_be_started_is_a_bad_request(
    shared: OwnedDesktop, argv: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(errors.BadRequest, match=message):
        await shared.exec(argv, **options)  # type: ignore[arg-type]
    if argv:
        with pytest.raises(errors.BadRequest, match=message):
            await shared.spawn(argv, **options)  # type: ignore[arg-type]


async def test_a_spawned_program_lives_on_and_gives_its_pid(shared: OwnedDesktop) -> None:
    pid = await shared.spawn(["sleep", "4713"])
    assert await sh(shared, f"tr '\\0' ' ' < /proc/{pid}/cmdline") == "sleep 4713 "
    await sh(shared, f"kill {pid}")


async def test_calls_go_on_beside_a_long_command(shared: OwnedDesktop) -> None:
    long = asyncio.create_task(shared.exec(["sleep", "1.2"]))
    await asyncio.sleep(0.05)
    observed, printed, _ = await asyncio.gather(
        shared.observe(), sh(shared, "echo hi"), shared.put_file("beside", b"x")
    )
    assert not long.done()
    assert observed.frame is not None
    assert printed == "hi\n"
    result = await long
    assert result.ok


async def test_many_commands_at_once_get_their_own_answers(shared: OwnedDesktop) -> None:
    numbers = range(40)
    results = await asyncio.gather(*(shared.exec(["bash", "-c", f"echo {n}; exit {n}"]) for n in numbers))
    assert [(result.stdout, result.exit_code) for result in results] == [(f"{n}\n".encode(), n) for n in numbers]
