"""A Redis server of its own for tests: in a temporary folder, on the loopback device, gone when the tests end."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis

_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl."""
_START = 10.0
"""Seconds after which a server that does not answer is an error."""


def find_program() -> str | None:
    """Find the server; None if it is not installed."""
    return shutil.which("redis-server")


def _die_with_parent() -> None:
    """Have the system end the server when the tests are killed."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


class RedisServer:
    """A server that can be stopped, killed and started again.

    Args:
        settings: settings of the server, such as appendonly; default: it keeps nothing on its disk.

    Attributes:
        port: the port on the loopback device.
        client: a client without a password, for what the tests do themselves; its replies are raw.
    """

    def __init__(self, **settings: str) -> None:
        memory = Path("/dev/shm")  # noqa: S108
        is_usable = memory.is_dir() and os.access(memory, os.W_OK)
        self.folder = Path(tempfile.mkdtemp(prefix="vestige-redis-", dir=memory if is_usable else None))
        self._settings = {"save": "", "appendonly": "no"} | settings
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = redis.Redis(port=self.port, password=settings.get("requirepass"), protocol=2)
        self.client.response_callbacks.clear()
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [word for name, value in self._settings.items() for word in (f"--{name}", *value.split(" "))]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), *options],
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # it does no more than one system call
            )
        until = time.monotonic() + _START
        while True:
            try:
                self.client.execute_command("PING")
            except redis.RedisError:
                if time.monotonic() > until:
                    self.stop()
                    raise RuntimeError((self.folder / "log").read_text(errors="replace")) from None
                time.sleep(0.01)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server: SIGTERM lets it write all it has, SIGKILL not even notice."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_START)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server, and start it again."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """End the server, and remove its folder."""
        self.stop()
        self.client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words: object) -> Any:
        """What the server replies to a command."""
        return self.client.execute_command(*words)

    def add(self, stream: str, rows: Iterable[dict[str, object]]) -> list[bytes]:
        """Add entries; their ids."""
        with self.client.pipeline(transaction=False) as pipe:
            pipe.response_callbacks.clear()
            for row in rows:
                fields = [word for name, value in row.items() for word in (name, value)]
                pipe.execute_command("XADD", stream, "*", *fields)
            added: list[bytes] = pipe.execute()
        return added

    def group(self, stream: str, name: str | None = None) -> dict[str, Any]:
        """What the server says of a group; of the only one if no name is given."""
        groups = [
            {key.decode(): value for key, value in zip(reply[::2], reply[1::2], strict=True)}
            for reply in self.call("XINFO", "GROUPS", stream)
        ]
        (found,) = [group for group in groups if name is None or group["name"] == name.encode()]
        return found

    def address(self, stream: str, login: str = "") -> str:
        """The address of a stream."""
        return f"redis://{login}127.0.0.1:{self.port}/0/{stream}"
