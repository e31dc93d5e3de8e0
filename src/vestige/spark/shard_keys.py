"""Keys of the shards of a query: each state that a batch writes has its own, and that of the state before is destroyed.

Spark runs batch N only when batch N - 1 is committed, gives it the state of N - 1, and may run any of its tasks again.
So whoever runs N opens the state with the key of its writing, which is thereby live, destroys what is older than N but
for that key, and seals what it writes with the key of (run, N), which all attempts share; each has a nonce of its own.
A key is never destroyed before the state that replaces what it seals was loaded by a later batch, hence committed.
A run is claimed by the driver in the slot of the marker: workers of an earlier run are refused from then on.
Guarantee: an attempt that comes late, of any batch, destroys no key that is live or being written; held by
tests/spark/test_shard_keys.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from vestige.errors import StoreError
from vestige.store import open_keyring
from vestige.store.keyring import Key, Keyring, KeyTable
from vestige.store.keyring.keyring import KEY, MARKER
from vestige.store.keyring.seal import WRITERS, Prefix, SealError, open_part, seal_parts
from vestige.store.opener import OWNER, SECRET, find_slot

_BATCH_BITS = 40
_BATCHES = 1 << _BATCH_BITS
_SHARDS = 1 << 20
_RUNS = 1 << (63 - _BATCH_BITS)


@cache
def open_worker_keyring(address: str) -> Keyring:
    """Open a keyring once for a process that runs tasks.

    Args:
        address: see `vestige.store.open_keyring`.

    Returns:
        The keyring.
    """
    return open_keyring(address)


def find_shard_slot(shard: int) -> int:
    """Find the slot of the key of a shard: that of a row of the table of buckets, which scanners of backups know.

    Args:
        shard: the shard, from 0 on.

    Returns:
        The slot.
    """
    return find_slot("buckets", shard + 1)


def claim_run(keyring: Keyring, digest: bytes, shards: int) -> int:
    """Claim the next run of a query: from now on no task of an earlier one can change the keyring.

    Args:
        keyring: the keyring, which belongs to this query alone.
        digest: of the definition of the query; see `Definition.digest`.
        shards: number of shards.

    Returns:
        The number of the run.

    Raises:
        StoreError: the keyring belongs to something else; or it cannot be written.
    """
    table = keyring.read()
    owners = table.find(OWNER)
    if not owners and len(table.list_slots()):
        raise StoreError(
            f"{keyring.where}: is the keyring of a store; give the query one of its own: vestige keyring init"
        )
    if owners and owners[-1].secret != digest:
        raise StoreError(
            f"{keyring.where}: belongs to a query with another policy, other limits, columns or shards; give the terms "
            "that it was started with, or start anew with a new keyring and a new checkpoint"
        )
    run = (table.newest >> _BATCH_BITS) + 1
    if run >= _RUNS:
        raise StoreError(f"{keyring.where}: has had {run:,} runs, and more cannot be told apart; start anew")
    if table.is_open:  # who claimed the last run was killed
        keyring.settle({MARKER: table.newest})
    keys = {MARKER: _draw(run << _BATCH_BITS)}
    if not owners:
        first = (SECRET, *map(find_shard_slot, range(shards)))
        keys |= {slot: _draw(run << _BATCH_BITS) for slot in first} | {OWNER: Key(run << _BATCH_BITS, digest)}
    keyring.prepare(keys)
    keyring.settle({MARKER: run << _BATCH_BITS})
    return run


def _draw(version: int) -> Key:
    return Key(version, os.urandom(KEY))


def read_secret(table: KeyTable) -> bytes:
    """Read what subjects are hashed with.

    Args:
        table: the keys of the keyring of a query.

    Returns:
        The secret, 32 bytes.
    """
    return table.find(SECRET)[-1].secret


def find_unsettled(table: KeyTable) -> list[int]:
    """Find the shards whose states were written anew, and the keys of what they replaced are still there.

    Args:
        table: the keys of the keyring of a query.

    Returns:
        The shards.
    """
    first = find_shard_slot(0)
    slots = table.list_slots(first, first + _SHARDS).tolist()
    return [slot - first for slot in slots if len(table.find(slot)) > 1]


@dataclass(frozen=True)
class ShardKeys:
    """The keys of one shard, for one attempt of one batch.

    Attributes:
        keyring: the keyring of the query.
        run: the number of the run.
        batch: the number of the batch, from 0 on.
        shard: the shard.
        attempt: number that tells the attempts of all tasks of the run from each other.
    """

    keyring: Keyring
    run: int
    batch: int
    shard: int
    attempt: int

    @property
    def version(self) -> int:
        """The version of what this batch writes."""
        return (self.run << _BATCH_BITS) + self.batch + 1

    @property
    def slot(self) -> int:
        """The slot of the shard."""
        return find_shard_slot(self.shard)

    def open(self, sealed: bytes | None) -> tuple[bytes | None, bytes]:
        """Open the state of the shard, and destroy the keys of what it replaced.

        Args:
            sealed: the state as the last committed batch has left it; None if it has left none.

        Returns:
            The state, and the secret that subjects are hashed with.

        Raises:
            StoreError: the state cannot be opened, or this attempt comes late.
        """
        table = self._read()
        held = table.find(self.slot)
        late = StoreError(self._say("a later batch has written already; this attempt comes late, and ends here"))
        if any(key.version > self.version for key in held):
            raise late
        live = self._find_live(held, sealed)
        if live >= self.version:
            raise late
        plain = None if sealed is None else self._unseal(sealed, held)
        if any(key.version not in (live, self.version) for key in held):
            self.keyring.settle({self.slot: live}, before=self.version)
        return plain, read_secret(table)

    def seal(self, plain: bytes) -> bytes:
        """Seal what this batch writes, with a key that is durable before this returns.

        Args:
            plain: the state.

        Returns:
            The sealed state.

        Raises:
            StoreError: the keyring cannot be written, or this attempt comes late.
        """
        key = self._find_own()
        if key is None:
            fresh = _draw(self.version)
            try:
                self.keyring.prepare({self.slot: fresh})
                key = fresh
            except StoreError:
                key = self._find_own()  # another attempt at this batch was faster
                if key is None:
                    raise
        return seal_parts([plain], self.keyring.id, self.slot, key, self.attempt % WRITERS)[0]

    def _find_own(self) -> Key | None:
        return next((key for key in self._read().find(self.slot) if key.version == self.version), None)

    def _read(self) -> KeyTable:
        table = self.keyring.read()
        if table.newest != self.run << _BATCH_BITS:
            raise StoreError(
                f"{self.keyring.where}: a later run of the query has begun, so this one cannot go on; stop it. If the "
                "query was defined twice, start the one that was defined last, or define it again"
            )
        return table

    def _find_live(self, held: tuple[Key, ...], sealed: bytes | None) -> int:
        """The version of the state that was loaded."""
        if sealed is None:
            first = [key.version for key in held if not key.version % _BATCHES]
            if not first:
                raise StoreError(
                    self._say(
                        "there is no state, and the keyring says that there was one: the checkpoint was removed or "
                        "replaced; give the checkpoint of this query, or start anew with a new keyring"
                    )
                )
            return first[0]
        prefix = Prefix.read(sealed)
        if prefix is None or prefix.slot != self.slot:
            raise StoreError(self._say("its state was changed outside Vestige; restore the checkpoint"))
        if prefix.keyring != self.keyring.id[: len(prefix.keyring)]:
            raise StoreError(self._say("its state was sealed with another keyring; give the one of this checkpoint"))
        return prefix.version

    def _unseal(self, sealed: bytes, held: tuple[Key, ...]) -> bytes:
        prefix = Prefix.read(sealed)
        assert prefix is not None  # noqa: S101  # `_find_live` has read it
        for key in held:
            if key.version == prefix.version:
                try:
                    return open_part(sealed, prefix, key)
                except SealError as problem:
                    raise StoreError(self._say(f"{problem}; restore the checkpoint")) from None
        newest = max((key.version for key in held), default=0)
        why = "an earlier one than the keyring knows: the checkpoint was rolled back, and what it holds was erased"
        if prefix.version > newest:
            why = "a later one than the keyring knows: the keyring is a copy from an earlier time; give the present one"
        raise StoreError(self._say(f"its state is {why}"))

    def _say(self, what: str) -> str:
        return f"shard {self.shard}, batch {self.batch}, {self.keyring.where}: {what}"
