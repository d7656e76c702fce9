"""The filter of system calls: what it decides, call by call, read by an interpreter of our own."""

from __future__ import annotations

import errno
import struct

import pytest

from sandbox.backends import seccomp
from sandbox.backends.seccomp import REFUSED, bpf_program, docker_profile

ALLOWED, EPERM, ENOSYS = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
MACHINES = ("x86_64", "aarch64")
OTHER_ARCH = 0x40000003  # i386


def decide(machine: str, number: int, argument: int = 0, *, arch: int | None = None) -> int:
    """What the kernel would do with a call: runs the program as the kernel's interpreter does."""
    data = struct.pack("=IIQQQQQQQ", number, arch or seccomp.AUDIT_ARCH[machine], 0, argument, *[0] * 5)
    program = list(struct.iter_unpack("=HBBI", bpf_program(machine)))
    accumulator, at = 0, 0
    while True:
        code, when_true, when_false, value = program[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += when_true if holds else when_false


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_is_decided_as_listed(machine: str) -> None:
    column = MACHINES.index(machine)
    refused = {numbers[column] for numbers in REFUSED.values() if numbers[column] is not None}
    assert len(refused) > 40
    for number in range(0, 470):
        expected = EPERM if number in refused else ENOSYS if number == 435 else ALLOWED
        assert decide(machine, number) == expected, number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["clone", "unshare"])
def test_only_the_namespaces_of_chromiums_sandbox_may_be_made(machine: str, call: str) -> None:
    number = seccomp.FLAGS[call][0][MACHINES.index(machine)]
    user, process, network = 0x10000000, 0x20000000, 0x40000000
    assert decide(machine, number, user | process | network | 17) == ALLOWED
    assert decide(machine, number, 0x3D0F00) == ALLOWED  # a thread
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000):
        assert decide(machine, number, flag) == EPERM
        assert decide(machine, number, user | flag) == EPERM
    assert decide(machine, number, 0x80) == (EPERM if call == "unshare" else ALLOWED)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_allowed_but_for_the_hypervisors(machine: str) -> None:
    number = seccomp.SOCKET["socket"][MACHINES.index(machine)]
    assert [decide(machine, number, family) for family in (1, 2, 10, 16, 40)] == [ALLOWED] * 4 + [EPERM]


def test_calls_of_other_instruction_sets_do_not_exist() -> None:
    for machine in MACHINES:
        assert decide(machine, 39, arch=OTHER_ARCH) == ENOSYS
    assert decide("x86_64", 0x40000000 + 1) == ENOSYS


def test_the_docker_profile_has_the_same_calls() -> None:
    profile = docker_profile()
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    plain = {name: rule["errnoRet"] for rule in profile["syscalls"] if "args" not in rule for name in rule["names"]}
    assert plain == {**dict.fromkeys(REFUSED, errno.EPERM), "clone3": errno.ENOSYS}
    by_argument = {
        (name, rule["args"][0]["value"]) for rule in profile["syscalls"] if "args" in rule for name in rule["names"]
    }
    flags = {(name, bit) for name, (_, bits) in seccomp.FLAGS.items() for bit in bits}
    assert by_argument == flags | {("socket", seccomp.VSOCK)}


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        bpf_program("riscv64")
