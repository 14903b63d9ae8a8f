"""Programs that we start for tests and benchmarks, and that never outlive us.

Each runs in a process group of its own with its output in a file. A guard process holds the other
end of a pipe: when this process ends, however it ends, the guard kills every group still listed.
"""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_GUARD = """
import os, shutil, signal, sys
groups, folders = set(), set()
for line in sys.stdin:
    verb, value = line.rstrip("\\n").split(" ", 1)
    {"+": groups.add, "-": groups.discard}.get(verb, lambda _: None)(value)
    {"folder": folders.add}.get(verb, lambda _: None)(value)
for group in groups:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except OSError:
        pass
for folder in folders:
    shutil.rmtree(folder, ignore_errors=True)
"""


class ProgramFailed(Exception):
    """A program ended when it should have been running."""

    def __init__(self, name: str, status: int, output: str) -> None:
        super().__init__(f"{name} ended with status {status}: {output}")
        self.name = name
        self.status = status
        self.output = output


class Guard:
    """Kills what is left of our programs when this process is gone, by signal or by crash."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            # Not in the terminal's foreground group: an interrupt must not end the guard first.
            start_new_session=True,
        )

    def watch_folder(self, folder: Path) -> None:
        self._send("folder", str(folder))

    def watch(self, group: int) -> None:
        self._send("+", str(group))

    def release(self, group: int) -> None:
        self._send("-", str(group))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()

    def _send(self, verb: str, value: str) -> None:
        # ValueError: the guard was closed because nothing of ours was left.
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(f"{verb} {value}\n")


class ManagedProgram:
    """One program: start, kill, pause, start again with the same arguments."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path, guard: Guard) -> None:
        self.name = name
        self.arguments = list(arguments)
        self.log = log
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None
        _ALIVE.add(self)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ProgramFailed(self.name, -1, "never started")
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = _spawn(self.arguments, output)
        self._guard.watch(self._process.pid)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def require_running(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise ProgramFailed(self.name, self._process.returncode, self.log_tail())

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask it to end; kill it if it does not."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._guard.release(self._process.pid)

    def pause(self) -> None:
        """Stop it from running without ending it: its connections stay open and silent."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def log_tail(self, length: int = 2000) -> str:
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-length:].strip()
        return ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now; all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _spawn(arguments: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


_ALIVE: "weakref.WeakSet[ManagedProgram]" = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    for program in list(_ALIVE):
        program.kill()
