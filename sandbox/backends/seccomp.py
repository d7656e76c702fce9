"""The system calls that no program of a desktop may make, in the two forms that the backends take: a BPF program and
a Docker profile.

Docker's default profile is the model. Refused, to root as well, is what manages the machine (modules, clocks, swap,
reboot), what is not namespaced (keys, vsock), and what mostly serves to attack the kernel (bpf, userfaultfd, io_uring,
perf). It differs where Chromium's own sandbox needs it: user, process and network namespaces may be made, no
others, and nothing may be mounted in them. Refused calls fail with EPERM; `clone3`, whose flags no filter can read, is
said not to exist, and libraries then use `clone`.

Standard library only: the keeper uses it.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Any

__all__ = ["REFUSED", "bpf_program", "docker_profile"]

X86_64, AARCH64 = "x86_64", "aarch64"
AUDIT_ARCH = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
X32_BIT = 0x40000000

REFUSED: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
    "uselib": (134, None),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
"""Call -> its number on x86_64 and on aarch64; None where there is no such call."""
ABSENT = {"clone3": (435, 435)}
NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000
FLAGS = {
    "clone": ((56, 220), (NEWNS, NEWCGROUP, NEWUTS, NEWIPC)),  # whose bit 0x80 is part of a signal's number
    "unshare": ((272, 97), (NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC)),
}
"""Call -> its numbers, and the bits of its first argument that are refused."""
VSOCK = 40
"""Address family that reaches the machine's own host past every network namespace."""
SOCKET = {"socket": (41, 198)}

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
AT_NUMBER, AT_ARCH, AT_FIRST_ARGUMENT = 0, 4, 16


def bpf_program(machine: str | None = None) -> bytes:
    """The filter as bubblewrap takes it.

    Args:
        machine: `x86_64` or `aarch64`; the default is this machine's.
    """
    machine = machine or os.uname().machine
    column = (X86_64, AARCH64).index(machine)
    program: list[tuple[int, int, int, int]] = []

    def refuse(code: int = errno.EPERM) -> None:
        program.append((RETURN, 0, 0, ERROR | code))

    program += [(LOAD, 0, 0, AT_ARCH), (JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine])]
    refuse(errno.ENOSYS)
    program.append((LOAD, 0, 0, AT_NUMBER))
    if machine == X86_64:  # the same calls under other numbers
        program.append((JUMP_AT_LEAST, 0, 1, X32_BIT))
        refuse(errno.ENOSYS)
    for calls, code in ((REFUSED, errno.EPERM), (ABSENT, errno.ENOSYS)):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                program.append((JUMP_EQUAL, 0, 1, number))
                refuse(code)
    for numbers, bits in FLAGS.values():
        program += [(JUMP_EQUAL, 0, 4, numbers[column]), (LOAD, 0, 0, AT_FIRST_ARGUMENT)]
        program.append((JUMP_SET, 0, 1, sum(bits)))
        refuse()
        program.append((RETURN, 0, 0, ALLOW))
    program += [(JUMP_EQUAL, 0, 3, SOCKET["socket"][column]), (LOAD, 0, 0, AT_FIRST_ARGUMENT)]
    program.append((JUMP_EQUAL, 0, 1, VSOCK))
    refuse()
    program.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def docker_profile() -> dict[str, Any]:
    """The filter as Docker takes it."""
    error = {"action": "SCMP_ACT_ERRNO"}
    rules: list[dict[str, Any]] = [
        {"names": sorted(REFUSED), **error, "errnoRet": errno.EPERM},
        {"names": sorted(ABSENT), **error, "errnoRet": errno.ENOSYS},
    ]
    for name, (_, bits) in FLAGS.items():
        for bit in bits:
            argument = {"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": bit, "valueTwo": bit}
            rules.append({"names": [name], **error, "errnoRet": errno.EPERM, "args": [argument]})
    argument = {"index": 0, "op": "SCMP_CMP_EQ", "value": VSOCK}
    rules.append({"names": ["socket"], **error, "errnoRet": errno.EPERM, "args": [argument]})
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64" if os.uname().machine == X86_64 else "SCMP_ARCH_AARCH64"],
        "syscalls": rules,
    }
