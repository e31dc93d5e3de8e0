"""The schema of a store in PostgreSQL: made whole or not at all.

Guarantee: of processes that create the same store at the same time one does, and the others use it; a store of another
version is refused and left as it is; held by tests/store/test_postgres_schema.py.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

from vestige.errors import StoreError
from vestige.store.postgres.connection import Connection
from vestige.store.rows import TABLES

VERSION = 4
"""Version of the schema."""
STORE_ID = 16
"""Bytes that tell one store from another."""
_OTHERS = {
    "store": "id int PRIMARY KEY CHECK (id = 1), version int NOT NULL, store bytea NOT NULL, keyring bytea NOT NULL",
    "fences": "id int PRIMARY KEY, epoch bigint NOT NULL",
}


class StoreRow(NamedTuple):
    """What a schema says of its store, in every version.

    Attributes:
        version: version of the schema.
        store: sixteen random bytes that tell the store from others.
        keyring: the id of its keyring.
    """

    version: int
    store: bytes
    keyring: bytes


def quote_schema(connection: Connection) -> str:
    """Quote the name of the schema for statements.

    Args:
        connection: a session.

    Returns:
        The name in quotation marks; `Address` lets no others into it.
    """
    return f'"{connection.address.schema}"'


def read_store(connection: Connection) -> StoreRow | None:
    """Read what the schema says of its store.

    Args:
        connection: a session.

    Returns:
        The store; None if there is no schema, or no store in it.

    Raises:
        StoreError: the tables are not those of a store, or may not be read.
    """
    found = connection.execute(  # to_regclass may remember that there is none
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = 'store'",
        connection.address.schema,
    )
    if not found:
        return None
    rows = connection.execute(f"SELECT version, store, keyring FROM {quote_schema(connection)}.store")  # noqa: S608
    if len(rows) != 1:
        raise StoreError(f"{connection.where}: its tables are not those of a store; was it changed by another program?")
    return StoreRow(*rows[0])


def create_tables(connection: Connection, keyring: bytes) -> StoreRow:
    """Create schema and tables; the caller holds a transaction, in which no other process creates them.

    Args:
        connection: a session.
        keyring: the id of the keyring.

    Returns:
        What the schema says of the store.

    Raises:
        StoreError: the user may not create them.
    """
    name, schema = connection.address.schema, quote_schema(connection)
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", name):
        _check_right(connection, "has_database_privilege(current_database(), 'CREATE')", (), name)
        connection.execute(f"CREATE SCHEMA {schema}")
    _check_right(connection, "has_schema_privilege(%s, 'CREATE')", (name,), name)
    for table, columns in TABLES.items():
        texts = ", ".join(f"{column} bytea NOT NULL" for column in columns)
        connection.execute(f"CREATE TABLE {schema}.{table} (id bigint PRIMARY KEY, {texts})")
        for column in columns:  # what is sealed cannot be compressed
            connection.execute(f"ALTER TABLE {schema}.{table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
    for table, columns_text in _OTHERS.items():
        connection.execute(f"CREATE TABLE {schema}.{table} ({columns_text})")
    made = StoreRow(VERSION, secrets.token_bytes(STORE_ID), keyring)
    connection.execute(f"INSERT INTO {schema}.store VALUES (1, %s, %s, %s)", *made)  # noqa: S608
    return made


def clear_fences(connection: Connection) -> None:
    """Empty the table of fences, whose numbers have lost their meaning; the caller is the only one who writes.

    Args:
        connection: a session in a transaction.
    """
    connection.execute(f"TRUNCATE {quote_schema(connection)}.fences")


def note_keyring(connection: Connection, keyring: bytes) -> None:
    """Note that a store is sealed with another keyring; the caller holds a transaction.

    Args:
        connection: a session.
        keyring: the id of the other keyring.
    """
    connection.execute(f"UPDATE {quote_schema(connection)}.store SET keyring = %s", keyring)  # noqa: S608
    clear_fences(connection)


def _check_right(connection: Connection, question: str, values: tuple[str, ...], schema: str) -> None:
    if connection.execute(f"SELECT {question}", *values) != [(True,)]:
        (user,) = connection.execute("SELECT current_user::text")[0]
        raise StoreError(
            f"{connection.where}: the user may not create the store; have the owner of the database run: "
            f'CREATE SCHEMA "{schema}" AUTHORIZATION "{user}"'
        )


def lock_creation(connection: Connection) -> None:
    """Wait until no other process creates this schema; until the transaction ends.

    Args:
        connection: a session in a transaction.
    """
    digest = hashlib.blake2b(connection.address.schema.encode(), digest_size=8, person=b"vestige schema").digest()
    connection.execute("SELECT pg_advisory_xact_lock(%s)", int.from_bytes(digest, "little", signed=True))


def check_version(connection: Connection, store: StoreRow) -> None:
    """Check that this Vestige can read the schema.

    Args:
        connection: a session.
        store: what the schema says.

    Raises:
        StoreError: the schema has another version.
    """
    if store.version != VERSION:
        raise StoreError(
            f"{connection.where}: has version {store.version} of the tables, and this Vestige reads version {VERSION}; "
            "use the Vestige that wrote it"
        )
