"""`vestige keyring`: make, check, rotate and destroy the keys that a store is sealed with.

Guarantee: no command prints a key, and none destroys a keyring without being told its name; held by
tests/test_cli_keyring.py.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from vestige.cli.access import json_option
from vestige.cli.exit_status import end
from vestige.cli.group import command
from vestige.cli.memory import lock_memory
from vestige.cli.output import announce_if_slow, escape, format_count, print_json, say, show_progress
from vestige.cli.store_options import VARIABLE, StoreOptions, required_store_argument, warn_of_copies
from vestige.errors import ParameterError, StoreError
from vestige.store import KeyringFile, open_keyring
from vestige.store.address import find_file, show_address


@command.group("keyring")
def keyring_group() -> None:
    """Make, check, rotate and destroy the keys of a sealed store.

    A store that has a keyring is sealed: each row is encrypted with a key of its own, and each time that the row is
    written it gets a fresh key, and the old one is overwritten in the keyring. So what was erased from the store can no
    longer be read anywhere: neither in the store nor in its backups, snapshots, replicas and logs, however many there
    are. Only the keyring has to be kept well: it is small, has no history, and may be in no backup. Without it the
    store is lost.

    Commands find the keyring by --keyring, or else in vestige.toml (keyring = "FILE") if that names the store, or else
    by the variable VESTIGE_KEYRING.

    \b
    Examples:
      vestige keyring init /keys/visits.keyring
      vestige run visits.csv --column spent --max-age 30d --store visits.db --keyring /keys/visits.keyring
      vestige verify visits.db --keyring /keys/visits.keyring --against /backups/monday.db
    """  # noqa: D301  # the escape keeps click from rewrapping the lines
    lock_memory()


@keyring_group.command("init")
@click.argument("file")
def make_keyring(file: str) -> None:
    """Make a keyring in FILE.

    FILE is small (128 bytes for each row of the store, which holds many streams), and only you can read it. An existing
    file is not overwritten. A keyring is for one store. A file system that copies on write is warned of.

    Put FILE on another device than the store, so that nobody gets both by one theft or one copy. Put it into no backup:
    a copy of it opens what is erased later. Mirror its device if you must not lose it (RAID, or a block device that is
    replicated synchronously), because what it seals is lost with it.

    \b
    Example:
      vestige keyring init /keys/visits.keyring
    """  # noqa: D301
    if find_file(file) is None:
        raise ParameterError(f"{show_address(file)}: is not the path of a file; a server makes its keyring itself")
    if Path(file).exists() and Path(file).stat().st_size:  # an empty one was left by a process that was killed
        raise StoreError(f"{file}: exists, and is not overwritten; give another name")
    keyring = KeyringFile(file, create=True)
    say(f"{file}: is a new keyring, {keyring.name}, which only you can read.")
    say(
        "Keep it on another device than the store, and out of every backup: a copy of it opens what is erased later. "
        "If it is lost, so is all that it seals."
    )
    say("The first command that writes to a store with it seals the store. Name it in one of these ways:")
    for way in (f"--keyring {shlex.quote(file)}", f"export {VARIABLE}={shlex.quote(file)}"):
        click.echo(escape(f"  {way}"))
    click.echo(escape(f"  keyring = {json.dumps(file, ensure_ascii=False)}    (a line of vestige.toml)"))
    say("If the store is in use already, delete the copies of it from before, which are in clear.")
    warn_of_copies(file)


@keyring_group.command("verify")
@click.argument("keyring", metavar="FILE")
@click.option(
    "--store", "address", metavar="ADDRESS", help="Store that it seals: check that the two fit together, row by row."
)
@json_option
def verify_keyring(keyring: str, address: str | None, *, machine: bool) -> None:
    """Check a keyring.

    This checks the rights of FILE, and that each key is whole and each transaction was brought to its end. FILE may
    also be the address of a keyring server. With --store, it also opens every row of the store, and checks that no key
    is left without a row: such a key would open what was erased in copies of the store. The exit status is 1 if
    anything is found.

    \b
    Examples:
      vestige keyring verify /keys/visits.keyring
      vestige keyring verify /keys/visits.keyring --store visits.db
    """  # noqa: D301
    opened = open_keyring(keyring)
    with announce_if_slow(f"Verifying {opened.where} ..."):
        found = opened.verify()
        keys = opened.read()
        store = None if address is None else StoreOptions(address, keyring=keyring)
        found += () if store is None else store.open_reader().verify_keys()
    count = sum(len(keys.find(slot)) for slot in keys.list_slots().tolist())
    warn_of_copies(keyring)
    if machine:
        print_json({"findings": list(found), "keys": count, "id": opened.name})
    else:
        for text in found:
            click.echo(escape(text))
        if not found:
            fits = "" if store is None else f" Each row of {store} opens, and no key is left without a row."
            none = ": all of them were destroyed" if keys.is_used else ": nothing is sealed with it yet"
            say(f"{show_address(keyring)}: nothing found; {format_count(count, 'key')}{'' if count else none}.{fits}")
    end(has_finding=bool(found))


@keyring_group.command("rotate")
@required_store_argument
@click.option(
    "--to",
    "target",
    metavar="ADDRESS",
    help="Another keyring, which vestige keyring init has made and no store has used: seal STORE with it, and destroy "
    "the old one.  [default: new keys in the same keyring]",
)
@json_option
def rotate(store: StoreOptions, target: str | None, *, machine: bool) -> None:
    """Seal STORE with fresh keys.

    Use this if somebody may have copied the keyring. All rows are written again with fresh keys, some hundred at a
    time, and the old keys are destroyed; the copy then opens nothing that STORE holds from now on. It still opens what
    STORE held when it was made, in copies of STORE of that time: delete these. If the command is interrupted, call it
    again.

    With --to, STORE moves to another keyring, such as from a file to a server. All rows are sealed with keys of the new
    keyring in one transaction, and then the old one is destroyed. If the command is interrupted, one of the two
    keyrings opens STORE; call it again, and it says what is left to do. Look at backups with vestige verify --against
    before that: afterwards it can only say that another keyring sealed them.

    \b
    Examples:
      vestige keyring rotate visits.db --keyring /keys/visits.keyring
      vestige keyring init /vault/visits.keyring
      vestige keyring rotate visits.db --keyring /keys/visits.keyring --to /vault/visits.keyring
    """  # noqa: D301
    old = open_keyring(store.require_keyring("rotate"))
    new = None if target is None else open_keyring(target)
    _check_sealed(store, old.where, target)
    with show_progress("Sealing") as tell, store.open() as opened:
        rows = opened.rotate(new, tell=tell)
    if machine:
        print_json({"rows": rows, "keyring": (new or old).name})
        return
    replaced = "the old ones" if new is None else f"all keys of {old.where}"
    sealed = f"{format_count(rows, 'row')} sealed with fresh keys of {(new or old).where}"
    say(f"{store}: {sealed}; {replaced} are destroyed.")
    if new is not None and store.file is None and store.key is None and Path(f"{old.where}.key").exists():
        is_file = isinstance(new, KeyringFile)
        remedy = f"move it to {new.where}.key, or give it by --key" if is_file else "give it to each command by --key"
        say(f"The key of its subjects is still {old.where}.key; {remedy}.")


def _check_sealed(store: StoreOptions, old: str, target: str | None) -> None:
    """Check that a store has its keyring, and that a call that was interrupted has not given it the new one already."""
    try:
        store.open_reader().count()
    except StoreError as problem:
        if target is None:
            raise
        try:
            StoreOptions(store.address, store.key, target).open_reader().count()
        except StoreError:
            raise problem from None
        raise StoreError(
            f"{store}: is sealed with {show_address(target)} already; use that one from now on. If {old} was its "
            f"keyring until then, an earlier call was interrupted; end it by vestige keyring destroy {old}"
        ) from None


@keyring_group.command("destroy")
@click.argument("keyring", metavar="FILE")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask for the name of the file.")
def destroy(keyring: str, *, is_confirmed: bool) -> None:
    """Destroy all keys in FILE, and so all that they seal.

    The keys are overwritten. What they sealed can never be opened again: the present store, its backups, snapshots and
    replicas, wherever they are. Copies of FILE are not reached. You are asked to type the name of the file.

    Use this to give up a store with all its copies at once, or after a move to another keyring that was interrupted.

    \b
    Example:
      vestige keyring destroy /keys/visits.keyring
    """  # noqa: D301
    opened = open_keyring(keyring)
    name = Path(keyring).name
    if not is_confirmed:
        say(f"{opened.where}: all that its keys seal will be lost for good, in the store and in all copies of it.")
        if click.prompt(f"Type {name} to destroy it") != name:
            raise StoreError(f"{opened.where}: was not destroyed, since that is not its name")
    count = opened.destroy()
    say(
        f"{opened.where}: {format_count(count, 'key')} destroyed; what they sealed can no longer be opened, in the "
        "store and in all copies of it."
    )
