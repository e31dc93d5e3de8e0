"""A session on a server has the settings that a store depends on; what goes wrong is said with a remedy."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from postgres import Database, Server
from vestige import Mean, Stream
from vestige.errors import StoreBusyError, StoreError
from vestige.store import PostgresStore, open_reader, open_store
from vestige.store.postgres.address import Address
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.errors import explain_refusal, make_error
from vestige.store.service_notes import ServiceNotes

HIDDEN = "geheim"


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """A user with a password, who may do nothing yet."""
    server.ask(f"CREATE ROLE clerk LOGIN PASSWORD '{HIDDEN}'")
    yield "clerk"
    server.ask("DROP OWNED BY clerk CASCADE")
    server.ask("DROP ROLE clerk")


def connect(server: Server, *, patience: float = 5.0, **options: Any) -> Connection:
    connection = Connection(Address.parse(server.address("vestige", **options)), patience)
    connection.open()
    return connection


def read_setting(connection: Connection, name: str) -> object:
    return connection.execute("SELECT current_setting(%s)", name)[0][0]


def test_settings_are_those_that_a_store_needs(server: Server, role: str) -> None:
    for name, value in {
        "synchronous_commit": "off",
        "idle_in_transaction_session_timeout": "1000",
        "idle_session_timeout": "1000",
        "statement_timeout": "1000",
        "lock_timeout": "1000",
        "client_encoding": "LATIN1",
    }.items():
        server.ask(f"ALTER ROLE {role} SET {name} = '{value}'")
    connection = connect(server, user=role, password=HIDDEN, patience=2.5)
    expected = {
        "synchronous_commit": "on",
        "idle_in_transaction_session_timeout": "0",
        "idle_session_timeout": "0",
        "statement_timeout": "0",
        "lock_timeout": "2500ms",
        "client_encoding": "UTF8",
        "application_name": "vestige",
        "search_path": "",
    }
    assert {name: read_setting(connection, name) for name in expected} == expected
    connection.close()


def test_the_address_may_name_the_application_and_not_the_encoding(server: Server) -> None:
    address = f"{server.address('vestige')}&application_name=ada&client_encoding=LATIN1"
    connection = Connection(Address.parse(address), 5.0)
    connection.open()
    assert read_setting(connection, "application_name") == "ada"
    assert read_setting(connection, "client_encoding") == "UTF8"
    connection.close()


def test_a_commit_that_waits_for_more_than_the_own_disk_stays_so(server: Server, role: str) -> None:
    server.ask(f"ALTER ROLE {role} SET synchronous_commit = 'remote_apply'")
    connection = connect(server, user=role, password=HIDDEN)
    assert read_setting(connection, "synchronous_commit") == "remote_apply"
    connection.close()


def shown(problem: BaseException) -> str:
    return "".join(traceback.format_exception(problem)) + repr(problem)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("FATAL:  the database system is starting up", "the server is starting"),
        ("FATAL:  the database system is shutting down", "the server is shutting down"),
        ("FATAL:  the database system is in recovery mode", "the server is recovering"),
        ("FATAL:  the database system is not yet accepting connections", "the server is starting"),
        ('FATAL:  too many connections for role "ada"', "the server has no connection left for this user"),
        ("FATAL:  remaining connection slots are reserved for roles with some attribute", "no connection left"),
        ('FATAL:  permission denied for database "x"', "the user may not connect to that database"),
        ('FATAL:  role "ada" is not permitted to log in', "the user may not log in"),
        ('FATAL:  database "x" is not currently accepting connections', "the database takes no connections"),
        ('FATAL:  role "database" does not exist', "the server does not know the user"),
        ('FATAL:  database "role" does not exist', "there is no such database"),
        ("Connection refused", "no server listens there"),
    ],
)
def test_a_refusal_is_told_by_its_words_and_not_by_names(said: str, meant: str) -> None:
    where = 'connection failed: connection to server at "database-role.example.org" (10.0.0.1), port 5432 failed: '
    assert meant in explain_refusal(where + said)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("clerk", "nobody"), "the server refuses the user or the password"),
        ((HIDDEN, f"{HIDDEN}2"), "the server refuses the user or the password"),
        (("/postgres?", "/nowhere?"), "there is no such database on the server; create it with createdb"),
        ((":{port}/", ":1/"), "start it, or correct host and port"),
        (("127.0.0.1", "nowhere.invalid"), "the host of the address is not known"),
    ],
)
def test_a_refusal_says_what_to_do_and_not_the_password(
    database: Database, role: str, change: tuple[str, str], expected: str
) -> None:
    address = database.server.address(database.schema, user=role, password=HIDDEN)
    address = address.replace(change[0].format(port=database.server.port), change[1])
    with pytest.raises(StoreError) as raised:
        open_store(address, keyring=database.keyring, patience=1.0)
    assert expected in str(raised.value)
    assert HIDDEN not in shown(raised.value)


def test_a_user_without_rights_is_told_what_to_ask_for(database: Database, role: str) -> None:
    address = database.server.address(database.schema, user=role, password=HIDDEN)
    with pytest.raises(StoreError, match=f'CREATE SCHEMA "{database.schema}" AUTHORIZATION "{role}"') as raised:
        open_store(address, keyring=database.keyring)
    assert HIDDEN not in shown(raised.value)
    database.ask(f"CREATE SCHEMA OURS AUTHORIZATION {role}")
    with open_store(address, keyring=database.keyring) as store:
        Stream(Mean(), retention=96, store=store.stream("a")).extend([1.0, 2.0])
    with open_store(address, keyring=database.keyring) as store:
        assert store.names() == ("a",)
        assert store.verify() == ()


def test_a_user_who_may_not_use_the_tables_is_told_so(database: Database, role: str) -> None:
    database.open().close()
    address = database.server.address(database.schema, user=role, password=HIDDEN)
    with pytest.raises(StoreError, match=r"may not do that|there is no such store"):
        open_store(address, keyring=database.keyring, create=False)
    database.ask(f"GRANT USAGE ON SCHEMA OURS TO {role}")
    with pytest.raises(StoreError, match="the user may not do that; have the owner of the schema grant it"):
        open_store(address, keyring=database.keyring)


def test_a_server_that_only_lets_one_read_is_named(database: Database, role: str) -> None:
    error = make_error("db", "25006")
    assert "primary server" in str(error)
    database.ask(f"CREATE SCHEMA OURS AUTHORIZATION {role}")
    database.ask(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    address = database.server.address(database.schema, user=role, password=HIDDEN)
    for create in (True, False):
        with pytest.raises(StoreError, match=r"only lets you read; .*\(default_transaction_read_only\)"):
            open_store(address, keyring=database.keyring)
        if create:
            database.ask(f"ALTER ROLE {role} RESET default_transaction_read_only")
            open_store(address, keyring=database.keyring).close()
            database.ask(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    assert open_reader(address, keyring=database.keyring).count() == 0


def test_a_primary_that_is_fenced_while_a_store_is_open_is_not_written_any_more(database: Database, role: str) -> None:
    database.ask(f"CREATE SCHEMA OURS AUTHORIZATION {role}")
    address = database.server.address(database.schema, user=role, password=HIDDEN)
    with open_store(address, keyring=database.keyring) as store:
        notes = ServiceNotes(store)
        database.ask("ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            database.ask("SELECT pg_reload_conf()")
            until = time.monotonic() + 10

            def write() -> None:
                while time.monotonic() < until:  # the session hears of it in a moment
                    notes.probe()

            with pytest.raises(StoreError, match="only lets you read"):
                write()
        finally:
            database.ask("ALTER SYSTEM RESET default_transaction_read_only")
            database.ask("SELECT pg_reload_conf()")
        while database.ask("SHOW default_transaction_read_only") != [("off",)]:
            assert time.monotonic() < until
        notes.probe()


def test_a_pooler_that_shares_sessions_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind one that hands out sessions for a transaction at a time."""
    with database.open() as store:
        stream = Stream(Mean(), retention=96, store=store.stream("a"))
        stream.push(1.0)
        monkeypatch.setattr(store._session.connection, "_pid", 1)
        with pytest.raises(StoreError, match="set the pooler to pool_mode=session"):
            store.flush()
        monkeypatch.undo()
        store._session.connection._is_pooled = False
        store.flush()

    class Pooled:
        """A second connection that gets the session of the first."""

        def __init__(self, pid: int) -> None:
            self.pid = pid

        def __enter__(self) -> Pooled:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def execute(self, _: str) -> Pooled:
            return self

        def fetchone(self) -> tuple[int]:
            return (self.pid,)

    connection = Connection(Address.parse(database.address), 1.0)
    monkeypatch.setattr(connection, "_connect", lambda: Pooled(7))
    with pytest.raises(StoreError, match="a pooler hands statements to sessions"):
        connection._check_no_pooler(7)
    connection._check_no_pooler(8)


def flush_and_fail(stream: Stream, store: PostgresStore) -> None:
    """Write, and go on after an error in the same transaction."""
    with store.transaction():
        stream.flush()
        with pytest.raises(StoreError, match="division by zero"):
            store._session.connection.execute("SELECT 1 / 0")


def test_a_transaction_that_has_failed_is_not_taken_for_committed(database: Database) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, which is not an error to it."""
    with database.open() as store:
        stream = Stream(Mean(), retention=96, store=store.stream("a"))
        stream.push(1.0)
        connection = store._session.connection
        with pytest.raises(StoreError, match="an earlier statement in this transaction"):
            flush_and_fail(stream, store)
        assert store.names() == ()
        connection.begin(is_writer=True)
        with pytest.raises(StoreError, match="PostgreSQL says"):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="an earlier statement"):
            connection.commit()
        stream.flush()
        assert store.names() == ("a",)


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        ("53100", "", "disk of the server is full; make room"),
        ("53200", "out of shared memory", "raise max_locks_per_transaction"),
        ("53200", "out of memory", "no memory left"),
        ("53300", "", "raise max_connections"),
        ("57P01", "", "connection to the server was lost"),
        ("08006", "", "connection to the server was lost"),
        ("57014", "", "was cancelled"),
        ("42P01", "", "its tables are not those of a store"),
        ("XX001", "", "restore a copy"),
        ("22012", "division by zero", "PostgreSQL says division by zero"),
    ],
)
def test_errors_of_the_server_say_what_to_do(code: str, said: str, expected: str) -> None:
    assert expected in str(make_error("db", code, said))


@pytest.mark.parametrize("code", ["55P03", "40P01", "40001"])
def test_errors_that_go_away_are_those_of_a_busy_store(code: str) -> None:
    assert isinstance(make_error("db", code), StoreBusyError)


def test_other_texts_of_libpq_are_not_repeated() -> None:
    assert HIDDEN not in explain_refusal(f"something about {HIDDEN}")


def test_a_disk_that_is_full_changes_nothing(database: Database) -> None:
    with database.open() as store:
        stream = Stream(Mean(), retention=96, store=store.stream("a"))
        stream.extend([1.0] * 100)
        store.flush()
        database.ask(
            "CREATE FUNCTION OURS.refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"
        )
        database.ask(
            "CREATE TRIGGER full_disk BEFORE UPDATE ON OURS.buckets FOR EACH ROW EXECUTE FUNCTION OURS.refuse()"
        )
        stream.push(1.0)
        with pytest.raises(StoreError, match="disk of the server is full"):
            stream.flush()
        assert store.read_stream("a")[1].clock.t == 100  # type: ignore[index]
        assert store.verify() == ()
        database.ask("DROP TRIGGER full_disk ON OURS.buckets")
        stream.flush()
        assert store.read_stream("a")[1].clock.t == 101  # type: ignore[index]
        assert store.verify() == ()


def test_a_session_that_is_lost_while_it_begins_is_called_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has said nothing by then."""
    monkeypatch.setattr(Connection, "_check_primary", lambda _, cursor: cursor.connection.pgconn.finish())
    with pytest.raises(StoreError, match="the connection to the server was lost"):
        database.open()
