"""Addresses of stores in PostgreSQL are read as libpq reads them, and shown without what is secret."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vestige.errors import MissingExtraError, ParameterError
from vestige.store import PostgresStore, open_store
from vestige.store.postgres import address as module
from vestige.store.postgres.address import Address

HIDDEN = "geheim"


@pytest.mark.parametrize(
    ("address", "schema", "where"),
    [
        (f"postgresql://u:{HIDDEN}@h:5/db?schema=shops&sslmode=require", "shops", "postgresql://h:5/db?schema=shops"),
        ("postgres://h/db", "vestige", "postgresql://h/db?schema=vestige"),
        (f"postgresql://u@/d?host=/run/x&password={HIDDEN}", "vestige", "postgresql://%2Frun%2Fx/d?schema=vestige"),
        (f"postgresql://u:{HIDDEN}%40x@h/db?schema=%61", "a", "postgresql://h/db?schema=a"),
        ("postgresql://a:1,b:2/db?target_session_attrs=primary", "vestige", "postgresql://a,b:1,2/db?schema=vestige"),
        (f"postgresql://u:{HIDDEN}?x@h/db?schema=b", "b", "postgresql://h/db?schema=b"),
    ],
)
def test_an_address_is_shown_without_user_and_password(address: str, schema: str, where: str) -> None:
    found = Address.parse(address)
    assert (found.schema, found.where) == (schema, where)
    assert "schema" not in found.connection
    assert HIDDEN not in repr(found)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:p@{HIDDEN}@h/db",
        f"postgresql://u:p/{HIDDEN}@h/db",
        f"postgresql://u:{HIDDEN}/12@h/db",
        f"postgresql://u:%{HIDDEN}@h/db",
        f"postgresql://u:{HIDDEN}@h/db?unknown=1",
        f"postgresql://u:{HIDDEN}@h:port/db",
        f"mysql://u:{HIDDEN}@h/db",
        f"postgresql://u:{HIDDEN}\udc80@h/db",
        f"postgresql://u:{HIDDEN}@h/db\udc80",
        f"postgresql://u:{HIDDEN}%ff@h/db",
        f"postgresql://u:p@{HIDDEN}\0@h/db",
        f"postgresql://u:{HIDDEN}@h/db?options=%ff",
    ],
)
def test_an_address_that_libpq_does_not_read_is_not_repeated(address: str) -> None:
    with pytest.raises(ParameterError, match="not one of the form postgresql://USER@HOST:PORT/DATABASE") as raised:
        Address.parse(address)
    assert HIDDEN not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize("schema", ["", "Shops", "a-b", "1a", "pg_catalog", "a" * 64, 'a"; DROP', "a&schema=b"])
def test_a_schema_has_a_simple_name(schema: str) -> None:
    with pytest.raises(ParameterError, match="schema in the address is not a name"):
        Address.parse(f"postgresql://h/db?schema={schema}")


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vestige\[postgres\]'"):
        open_store("postgresql://h/db", keyring="nowhere")
    assert module.load_psycopg is not None


def test_vestige_does_not_load_psycopg() -> None:
    code = "import sys, vestige; vestige.open_store('memory:'); sys.exit('psycopg' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_scheme_names_the_form_once() -> None:
    with pytest.raises(ParameterError, match=r"memory:, or postgresql://USER@HOST:PORT/DATABASE\?schema=NAME$"):
        open_store("redis://localhost")
    assert PostgresStore.address_form.startswith("postgresql://")
