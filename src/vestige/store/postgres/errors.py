"""What errors of PostgreSQL mean for a store, and what to do about each.

Appendix A of the manual of PostgreSQL lists the codes. Before a session there are no codes, only texts of libpq.
Guarantee: what libpq says of a connection is not repeated, since it may quote a part of a password; held by
tests/store/test_postgres_connection.py.
"""

from __future__ import annotations

import re

from vestige.errors import StoreBusyError, StoreError

_REFUSALS = {
    "password authentication failed": "the server refuses the user or the password; correct them in the address, in "
    "PGPASSWORD or in ~/.pgpass",
    "no password supplied": "the server wants a password; put it into PGPASSWORD or ~/.pgpass",
    "authentication failed": "the server refuses the user; correct the address, or have its administrator allow it "
    "(pg_hba.conf)",
    "no pg_hba.conf entry": "the server does not accept this user from this host; have its administrator allow it "
    "(pg_hba.conf)",
    "too many": "the server has no connection left for this user or database; end other programs, or have its "
    "administrator allow more (max_connections, CONNECTION LIMIT)",
    "slots are reserved": "the server has no connection left; end other programs, or have its administrator raise "
    "max_connections",
    "permission denied": "the user may not connect to that database; have its owner grant CONNECT",
    "not permitted to log in": "the user may not log in; have the administrator of the server allow it (ALTER ROLE)",
    "starting up": "the server is starting; try again in a moment",
    "shutting down": "the server is shutting down; start it again",
    "recovery": "the server is recovering after a crash; try again in a moment",
    "not yet accepting": "the server is starting; try again in a moment",
    "not currently accepting": "the database takes no connections; have its administrator allow them",
    "role": "the server does not know the user; correct the address, or have its administrator create the role",
    "database": "there is no such database on the server; create it with createdb, or correct the address",
    "SSL": "the server and this client do not agree on encryption; set sslmode in the address as the server wants it",
    "certificate": "the certificate of the server is not accepted; set sslmode and sslrootcert in the address",
    "resolve": "the host of the address is not known; correct it",
    "timeout": "the server does not answer; is it running, and does a firewall let you through?",
    "refused": "no server listens there; start it, or correct host and port of the address",
    "No such file": "no server listens on that socket; start it, or correct host and port of the address",
}
"""What libpq says while it connects, the first that fits; and what that means."""
_NAME = re.compile('"[^"]*"')
"""The name of a host, a user or a database, which may hold any of these words."""
_LOST = (
    "the connection to the server was lost; the next call connects again. What was written in this transaction() was "
    "rolled back: try again"
)
_REMEDIES = {
    "53100": "the disk of the server is full; make room and try again: nothing was changed",
    "53200": "the server has no memory left; try again with less at once: nothing was changed",
    "53300": "the server has no connection left; end other programs, or raise max_connections",
    "25006": "the server only lets you read; give the address of the primary server, or have its administrator allow "
    "writing (default_transaction_read_only)",
    "25P02": "an earlier statement in this transaction() failed, so all of it was rolled back; leave the block and try "
    "again: nothing was changed",
    "42501": "the user may not do that; have the owner of the schema grant it, or use the role that created the store",
    "42P01": "its tables are not those of a store; was it changed by another program?",
    "57014": "a statement was cancelled on the server; try again: nothing was changed",
    "XX001": "the database is damaged; restore a copy that is younger than the limits",
    "XX002": "an index of the database is damaged; have its administrator reindex it",
}
_BUSY = {
    "55P03": "another process reads or writes the store and does not let go",
    "40P01": "other processes wait for this one while it waits for them",
    "40001": "another process has changed the same rows",
}
_NO_LOCKS = (
    "the server has no room for more locks, of which each open stream takes one; open fewer streams in a process, or "
    "use KeyedStreams, which take one for all, or have the administrator raise max_locks_per_transaction"
)


def explain_refusal(said: str) -> str:
    """Explain why no session could be begun.

    Args:
        said: what libpq says.

    Returns:
        A sentence that quotes nothing of it.

    Example:
        >>> explain_refusal('connection failed: server at "h", port 1 failed: Connection refused')
        'no server listens there; start it, or correct host and port of the address'
    """
    plain = _NAME.sub("", said)
    for part, meaning in _REFUSALS.items():
        if part in plain:
            return meaning
    return "no session could be begun on the server; try the address with psql, which says more"


def make_error(where: str, code: str, said: str = "", *, is_lost: bool = False) -> StoreError:
    """Make the error that an error of the server means for a store.

    Args:
        where: the store.
        code: the code of the error; empty if the server said none.
        said: what the server says.
        is_lost: whether the session has ended with it.

    Returns:
        The error.

    Example:
        >>> print(make_error("db", "53100"))
        db: the disk of the server is full; make room and try again: nothing was changed
    """
    if is_lost or code.startswith("08") or code in ("57P01", "57P02", "57P03", "57P05"):
        return StoreError(f"{where}: {_LOST}")
    if code in _BUSY:
        return StoreBusyError(f"{where}: {_BUSY[code]}; try again: nothing was changed")
    if code == "53200" and "shared memory" in said:
        return StoreError(f"{where}: {_NO_LOCKS}")
    if code in _REMEDIES:
        return StoreError(f"{where}: {_REMEDIES[code]}")
    return StoreError(f"{where}: PostgreSQL says {said} ({code}); nothing was changed")
