"""A keyring server that the real command starts in a process of its own, and that can be killed and started again.

Run as a program, this is a nursery: it imports the command once, and forks a server for each line that it reads.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from limits import join, kill_late
from vestige.cli.group import load_commands
from vestige.store.keyring import Key, KeyringFile
from vestige.store.keyring.client import KeyringClient
from vestige.store.keyring.listener import make_server
from vestige.store.tokens import create_token

HOST = "127.0.0.1"


def make_key(version: int) -> Key:
    """A key that its version says all about."""
    return Key(version, hashlib.sha256(str(version).encode()).digest())


def make_certificate(path: Path, host: str = HOST) -> Path:
    """Write a certificate for an address that is signed with its own key, and the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "keyring")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


class Served:
    """A keyring, its tokens and certificate in a folder, and a server for it.

    Args:
        folder: the folder.
        nursery: the program that forks servers, which is faster than to start them; default: start them.
    """

    def __init__(self, folder: Path, nursery: Nursery | None = None) -> None:
        self.file = KeyringFile(folder / "visits.keyring", create=True)
        self.tokens, self.log = folder / "visits.tokens", folder / "log"
        self.writer = create_token(self.tokens, "writer", "write")
        self.reader = create_token(self.tokens, "reader", "read")
        self.certificate = make_certificate(folder / "server.pem")
        self.port, self.address = 0, ""
        self._nursery, self._is_running = nursery, False
        self._process: subprocess.Popen[str] | None = None

    def start(self, keyring: Path | None = None, *, port: int | None = None) -> None:
        """Start the command; it listens on the port of before."""
        words = [str(keyring or self.file.path), "--tokens", str(self.tokens), "--certificate", str(self.certificate)]
        words += ["--port", str(self.port if port is None else port), "--log-requests"]
        if self._nursery is not None:
            line = self._nursery.start(words, self.log)
        else:
            with self.log.open("a") as log:
                command = [sys.executable, "-m", "vestige", "keyring", "serve", *words]
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            assert self._process.stdout is not None
            with kill_late(self._process):
                line = self._process.stdout.readline()
        assert line.startswith("Serving the keyring "), self.log.read_text()
        self.address = line.split()[-1]
        self.port = int(self.address.rpartition(":")[2])
        self._is_running = True

    def stop(self, number: int = signal.SIGKILL) -> int:
        """End the server with a signal; its status."""
        self._is_running = False
        if self._nursery is not None:
            return self._nursery.stop(number)
        assert self._process is not None
        self._process.send_signal(number)
        with self._process as process, kill_late(process):
            return process.wait()

    def connect(self, token: str | None = None, **options: Any) -> KeyringClient:
        """A client of the server."""
        return KeyringClient(self.address, token=token or self.writer, ca=self.certificate, **options)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_running:
            self.stop()


class Nursery:
    """The program below, as a process."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}  # for what is imported above
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._child = 0

    def start(self, words: list[str], log: Path) -> str:
        """Fork a server; the line that it prints."""
        self._child = int(self._ask([words, str(log)]))
        return self._read_line()

    def stop(self, number: int) -> int:
        """End the server that was forked last; its status."""
        os.kill(self._child, number)
        status, self._child = int(self._ask(None)), 0
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()
            if self._child:
                with suppress(ProcessLookupError):  # it was ended
                    os.kill(self._child, signal.SIGKILL)

    def _ask(self, request: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read_line()

    def _read_line(self) -> str:
        """What the nursery prints, or its child: one that ends without a word leaves the pipe open behind it."""
        assert self._process.stdout is not None
        with kill_late(self._process, *([self._child] if self._child else ())):
            return self._process.stdout.readline()


@contextmanager
def host_server(keyring: KeyringFile, tokens: Path) -> Iterator[int]:
    """A server in this process, in clear, whose limits may be patched; its port."""
    server = make_server(keyring, tokens, None)
    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            join(thread)


def run_nursery() -> None:
    """Fork a server for each request, and wait for its end at the next."""
    command, child = load_commands(), 0
    for line in sys.stdin:
        if (request := json.loads(line)) is None:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        words, log = request
        if not (child := os.fork()):
            os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
            print(os.getpid(), flush=True)
            command(["keyring", "serve", *words])


if __name__ == "__main__":
    run_nursery()
