"""How the spawner starts a program: in a fork that changes to the asked uid for good and then becomes the program.

A child under the desktop's uid can be stopped by the desktop before it has become anything. So what is started on the
probe's behalf is not waited for: `fork` gives a descriptor that tells how the start went.
"""

from __future__ import annotations

import errno
import os
import resource
import signal

from sandbox.probe import userside

__all__ = ["StartFailed", "Starter", "read_problem"]

RESERVED_PIDS = 24
"""Of the desktop's processes and threads, those that its user cannot have: the probe's, the X server's, root's."""


class StartFailed(Exception):
    """A program could not be started; the message says why."""


class Starter:
    """Starts programs as root, the X server, the probe or the desktop's user.

    Args:
        uids: uid by name: xserver, probe, user.
        pids: processes and threads that the whole desktop may have.
        log: descriptor that the desktop's own programs print to.
    """

    def __init__(self, uids: dict[str, int], pids: int, log: int) -> None:
        self._uids = uids
        self._pids = pids
        self._log = log

    def become(self, who: str) -> None:
        """Change to a uid for good. The kernel marks the process untraceable until it executes a program."""
        uid = 0 if who == "root" else self._uids[who]
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if who == "user":
            # When the desktop runs out of memory, its applications go before the probe and the X server.
            with open("/proc/self/oom_score_adj", "w") as handle:
                handle.write("600")
            room = self._pids - RESERVED_PIDS
            resource.setrlimit(resource.RLIMIT_NPROC, (room, room))  # counted per uid, and this uid is the desktop's
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    def start(self, who: str, argv: list[str], env: dict[str, str], cwd: str) -> int:
        """Start a program of the desktop itself, wait until it runs, and return its pid.

        Raises:
            StartFailed: it could not be executed.
        """
        pid, error_r = self.fork(who, argv, env, cwd, None)
        problem = read_problem(error_r)
        if problem is not None:
            raise StartFailed(problem[0])
        return pid

    def fork(self, who: str, argv: list[str], env: dict[str, str], cwd: str, fds: list[int] | None) -> tuple[int, int]:
        """Fork a session of its own that becomes argv, or, where that begins with "@", calls a function of `userside`.

        Args:
            fds: its standard input, output and error; None for /dev/null and the log.

        Returns:
            The pid, and a descriptor for `read_problem`: it gives the reason if the child cannot become argv, and then
            ends, however it goes.

        Raises:
            StartFailed: there is no room for a process.
        """
        error_r, error_w = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:  # the desktop is at its limit of processes or memory
            os.close(error_r)
            os.close(error_w)
            raise StartFailed(f"the desktop has no room for another process: {error.strerror}") from error
        if pid == 0:
            try:
                self._child(who, argv, env, cwd, fds, error_w)
            except BaseException as error:  # noqa: BLE001 - a forked child must end here
                reason, code = (error.strerror, error.errno) if isinstance(error, OSError) else (error, 0)
                os.write(error_w, f"{code} {reason}".encode()[:4000])
            finally:
                os._exit(127)
        os.close(error_w)
        return pid, error_r

    def _child(
        self, who: str, argv: list[str], env: dict[str, str], cwd: str, fds: list[int] | None, started: int
    ) -> None:
        """Become the program. The start is over when `started` is closed, which executing a program does."""
        os.setsid()
        if fds is not None:
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
        else:
            null = os.open("/dev/null", os.O_RDWR)
            for number, fd in enumerate((null, self._log, self._log)):
                os.dup2(fd, number)
        self.become(who)
        try:
            os.chdir(cwd)
        except OSError as error:
            raise OSError(error.errno, f"cannot work in {cwd}: {error.strerror}") from error
        if argv[0] == "@":
            os.close(started)
            os._exit(userside.call(argv[1], argv[2:]))
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)


def read_problem(fd: int) -> tuple[str, bool] | None:
    """Why a forked child could not start, and whether for want of room; None when it went well."""
    try:
        code, _, reason = os.read(fd, 4096).decode().partition(" ")
    finally:
        os.close(fd)
    if not code:
        return None
    full = int(code) in (errno.EAGAIN, errno.ENOMEM)
    return (f"the desktop has no room for another process: {reason}" if full else reason), full
