"""Addresses of stores in PostgreSQL: what goes to libpq, the schema, and what may be shown of both.

Guarantee: a password is in no address that is shown, also not a part of one that was written without %-escapes; held by
tests/store/test_postgres_address.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from urllib.parse import quote, unquote

from vestige.errors import MissingExtraError, ParameterError

FORM = "postgresql://USER@HOST:PORT/DATABASE?schema=NAME"
"""How addresses look."""
SCHEMA = "vestige"
"""The schema if an address names none."""
_ADDRESS = re.compile(r"(postgres(?:ql)?://(?:[^@/]*@)?[^?]*)(?:\?(.*))?", re.DOTALL)
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_PORT = re.compile(r"[0-9,]*")
_SHOWN = re.compile(r"[^@\0]*")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is in PostgreSQL.

    Attributes:
        connection: the parameters for libpq, which may contain a password.
        schema: the schema.
        where: the address without user and password, for messages.
    """

    connection: Mapping[str, object] = field(repr=False)
    schema: str
    where: str

    @classmethod
    def parse(cls, address: object) -> Address:
        """Read an address.

        Args:
            address: such as `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`. Other parameters are those of libpq.

        Returns:
            Its parts.

        Raises:
            MissingExtraError: psycopg is not installed.
            ParameterError: it is not such an address, or the schema has an unsuitable name; the message does not repeat
                it, since it may contain a password.

        Example:
            >>> Address.parse("postgresql://ada:secret@db.example.org/visits?schema=shops").where
            'postgresql://db.example.org/visits?schema=shops'
        """
        match = _ADDRESS.fullmatch(str(address))
        base, query = match.groups(default="") if match else ("", "")
        options = [option for option in query.split("&") if option]
        names = [unquote(option[7:]) for option in options if option.startswith("schema=")]
        others = [option for option in options if not option.startswith("schema=")]
        schema = names[0] if names else SCHEMA
        if len(names) > 1 or not _NAME.fullmatch(schema):
            raise ParameterError(
                "schema in the address is not a name; use one of up to 63 lower-case letters, digits and underscores "
                "that begins with a letter and not with pg_"
            )
        connection = _parse_connection(base + "?" * bool(others) + "&".join(others))
        return cls(connection, schema, _describe(connection, schema))


def _parse_connection(text: str) -> Mapping[str, object]:
    """The parameters that libpq reads in an address."""
    psycopg = load_psycopg()
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        found: Mapping[str, object] = conninfo_to_dict(text) if text and "\0" not in text else {"port": "unreadable"}
    except (psycopg.Error, UnicodeError):
        found = {"port": "unreadable"}
    shown = [str(found.get(name, "")) for name in ("host", "hostaddr", "dbname")]
    if not _PORT.fullmatch(str(found.get("port", ""))) or not all(map(_SHOWN.fullmatch, shown)):
        raise ParameterError(
            f"the address is not one of the form {FORM}; write @ / ? : # and % in a user's name or a password as %40 "
            "%2F %3F %3A %23 and %25, or leave the password to PGPASSWORD or ~/.pgpass"
        )
    return found


def _describe(found: Mapping[str, object], schema: str) -> str:
    """The address without user and password."""
    host = quote(str(found.get("host") or found.get("hostaddr") or ""), safe=",:[]")
    port = f":{found['port']}" if found.get("port") else ""
    return f"postgresql://{host}{port}/{quote(str(found.get('dbname', '')))}?schema={schema}"


def load_psycopg() -> ModuleType:
    """Import psycopg, which only stores in PostgreSQL need.

    Returns:
        The module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import psycopg  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("a store in PostgreSQL", "postgres") from None
    return psycopg
