"""A claim on a new keyring: which store its first transaction makes, until that transaction is settled.

A process that is killed in this transaction leaves keys, and nobody can tell from them whether the store was committed.
Whoever begins again for the same store destroys them; any other store is refused, since they may open the first one.
Guarantee: a store that was committed keeps its keys, whatever other store is made with its keyring; held by
tests/store/test_claim.py.
"""

from __future__ import annotations

import hashlib
import platform

from vestige.errors import StoreError
from vestige.store.keyring.keyring import MARKER, Keyring, KeyTable
from vestige.store.opener import OWNER


def make_claim(keyring: Keyring, where: str) -> bytes:
    """Make what says that a keyring is for a store.

    Args:
        keyring: the keyring.
        where: where the store is.

    Returns:
        A digest of 32 bytes, which goes into the slot of the owner.
    """
    text = "\0".join((platform.node(), where)).encode(errors="surrogatepass")
    return hashlib.blake2b(text, key=keyring.id, digest_size=32).digest()


def clear_unused(keyring: Keyring, where: str) -> KeyTable:
    """Check that a keyring is free for a store, and destroy what an interrupted call for this store has left in it.

    Args:
        keyring: the keyring.
        where: where the store is.

    Returns:
        The keys, of which there are none.

    Raises:
        StoreError: it has the keys of another store, or may have.
    """
    keys = keyring.read()
    if keys.is_used:
        raise StoreError(
            f"{keyring.where}: holds the keys of another store; make one for each store: vestige keyring init"
        )
    slots = keys.list_slots().tolist()
    if not slots:
        return keys
    # Without a key of the marker they were not prepared to the end, so nothing was committed.
    if keys.has_slot(MARKER) and make_claim(keyring, where) not in [key.secret for key in keys.find(OWNER)]:
        raise StoreError(
            f"{keyring.where}: was to become the keyring of another store, or of this one by another name, when that "
            "process was ended, and its keys may open it; open that store once for writing, which ends what was begun, "
            "and make another keyring for this one: vestige keyring init"
        )
    keyring.settle(dict.fromkeys(slots, 0))
    return keyring.read()
