"""A PostgreSQL server of its own for tests: in a temporary folder, with its defaults, gone when the tests end."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from vestige.store import KeyringFile, PostgresStore, Reader, open_reader

_SETTINGS = {
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "1h",  # a test that waits for it would be random
}
_SECONDS = 60
"""Seconds for which anything of a server is waited for; it takes one."""
_LEFT = "20s"
"""How long a schema that is dropped is waited for."""
_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl."""


def find_programs() -> Path | None:
    """Find the folder with the programs of the newest PostgreSQL that is installed; None if there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: folder.parent.name, reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _find_user() -> str | None:
    """Find the user to run the server as: ourselves, unless we are root, whom PostgreSQL refuses."""
    return None if os.geteuid() else "postgres" if _has_user("postgres") else "nobody"


def _has_user(name: str) -> bool:
    import pwd  # noqa: PLC0415

    with suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False


def _die_with_parent() -> None:
    """Have the system end the server when the tests are killed."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGQUIT)


class Server:
    """A server that is started once, and can be stopped, killed and started again.

    Args:
        programs: the folder with the programs of PostgreSQL.

    Attributes:
        port: the port on the loopback device.
        superuser: the name of the superuser, who needs no password.
    """

    superuser = "postgres"

    def __init__(self, programs: Path) -> None:
        self._programs, self._user = programs, _find_user()
        memory = Path("/dev/shm")  # noqa: S108
        is_usable = memory.is_dir() and os.access(memory, os.W_OK)
        self.folder = Path(tempfile.mkdtemp(prefix="vestige-postgres-", dir=memory if is_usable else None))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self.folder / "data"), "-U", self.superuser, "-E", "UTF8", "--locale=C")
        rights = ["local all all trust", f"host all {self.superuser} 127.0.0.1/32 trust"]
        rights += ["host all all 127.0.0.1/32 scram-sha-256"]
        hba = self.folder / "data" / "pg_hba.conf"
        hba.write_text("".join(f"{line}\n" for line in rights))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        made = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd="/",
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
        if made.returncode:
            raise RuntimeError(f"{program} failed: {made.stderr.decode(errors='replace')}")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process, until = self._launch(), time.monotonic() + _SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise RuntimeError((self.folder / "log").read_text(errors="replace")) from None
                time.sleep(0.02)
                if self._process.poll() is not None:  # children of one that was killed are not gone yet
                    self._process = self._launch()
            else:
                return

    def _launch(self) -> subprocess.Popen[bytes]:
        settings = _SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options],
                user=self._user,
                cwd="/",
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # it does no more than one system call
            )

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server: SIGINT lets it write all it has, SIGQUIT does not, SIGKILL not even notice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_SECONDS)
            raise RuntimeError(f"the server has not ended within {_SECONDS} s of {how.name}, and was killed") from None

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server, and start it again."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """End the server, and remove its folder."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the superuser, who asks what the tests want to know."""
        where = make_conninfo(host=str(self.folder), port=self.port, user=self.superuser, dbname="postgres")
        return psycopg.connect(where, autocommit=True, connect_timeout=_SECONDS)

    def ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """What the server answers to a question of the superuser."""
        with self.connect() as connection:
            connection.execute(f"SET statement_timeout = '{_SECONDS}s'")  # a session that was left open may hold a lock
            asked = connection.execute(question.encode(), values or None)
            return asked.fetchall() if asked.description else []

    def address(self, schema: str, *, user: str = superuser, password: str = "") -> str:
        """The address of a store in a schema: over the loopback device if there is a password, else over the socket."""
        if password:
            return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/postgres?schema={schema}"
        return f"postgresql://{user}@/postgres?host={self.folder}&port={self.port}&schema={schema}"


@dataclass(frozen=True, slots=True)
class Database:
    """A place for one store: a schema of its own, and a keyring.

    Attributes:
        server: the server.
        schema: the schema.
        keyring: the file of the keyring.
    """

    server: Server
    schema: str
    keyring: Path

    @classmethod
    def create(cls, server: Server, folder: Path) -> Database:
        """Make a keyring for a schema that is not there yet."""
        made = cls(server, f"test_{os.urandom(6).hex()}", folder / "store.keyring")
        KeyringFile(made.keyring, create=True)
        return made

    @property
    def address(self) -> str:
        """The address of the store."""
        return self.server.address(self.schema)

    def ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """What the server answers to a question of the superuser, in which OURS stands for the schema."""
        return self.server.ask(question.replace("OURS", self.schema), *values)

    def open(self, *, patience: float = 5.0, create: bool = True) -> PostgresStore:
        """Open the store for writing."""
        return PostgresStore(self.address, keyring=self.keyring, patience=patience, create=create)

    def read(self) -> Reader:
        """Open the store for reading."""
        return open_reader(self.address, keyring=self.keyring)

    def drop(self) -> None:
        """Drop the schema; an error if a session that was left open keeps it."""
        statement = f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE'
        try:
            self.server.ask(f"SET lock_timeout = '{_LEFT}'; {statement}")
        except psycopg.errors.LockNotAvailable:
            self.end_sessions()
            self.server.ask(statement)
            raise RuntimeError("the test has left a store open in a transaction, which was ended") from None

    def end_sessions(self) -> None:
        """Have the server end all sessions of stores, as an administrator or a network may."""
        self.server.ask(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'vestige'"
        )
