"""Erasure by key: rows are sealed, and destroying a key erases every copy of what it sealed."""

from vestige.store.keyring.address import open_keyring
from vestige.store.keyring.file import KeyringFile
from vestige.store.keyring.keyring import Key, Keyring, KeyTable

__all__ = ["Key", "KeyTable", "Keyring", "KeyringFile", "open_keyring"]
