"""Options from a file: what vestige.toml says is added to the command line, which comes first.

A key is the long name of an option without its dashes, or `source`, and its value is checked as on the command line. So
an option that is added to a command is a key as well.
Guarantee: a file gives what the same command line gives, and an unknown key or a wrong type is an error that names
file, key and remedy; held by tests/test_cli_config.py.
"""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import date, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from vestige.errors import ParameterError
from vestige.validation import show_value

FILE = "vestige.toml"
"""Name of the file that is read if it is in the folder in which the command is called."""
_PARAMETER = "config"
_META = "vestige.config"
_RECEIPTS = "keep-receipts"
_STORE_SECRETS = ("key", "keyring")
_NIGHT = ("requests", "answers")
"""Keys that only `vestige nightly` uses."""
_STORE_KEYS = ("store", *_STORE_SECRETS, _RECEIPTS)
"""Keys that commands on a store use; all others are those of `vestige run`."""
_NOT_IN_FILES = ("config", "help", "progress")
_REPLACED = {
    "metric": ("column", "target", "statistic", "edges", "categories", "channel", "standard-error"),
    "column": ("metric",),
}
"""What an option on the command line replaces in a file besides itself."""
_NUMBERS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "integer": (int, "a whole number, such as 512"),
    "float": ((int, float), "a number, such as 0.5"),
}

config_option = click.option(
    "--config",
    metavar="FILE",
    expose_value=False,
    help=f"TOML file with options that are not given here.  [default: {FILE} in this folder, if it exists]",
)


def add_from_file(command: click.Command, ctx: click.Context, args: list[str], given: Mapping[str, Any]) -> list[str]:
    """Add what the file says to the words of a command line.

    Args:
        command: the command.
        ctx: its context, which remembers the keys that were used.
        args: the words of the command line after the name of the command.
        given: what the parser has made of them, by parameter.

    Returns:
        The words, with those for the options that are not given.

    Raises:
        ParameterError: the file cannot be read, or has a key or a value that the command does not know.
        click.UsageError: a store is neither given nor in the file, or is given in two ways.
    """
    params = {_find_key(param): param for param in command.params}
    help_option = command.get_help_option(ctx)
    is_help = help_option is not None and help_option.name in given
    on_store = isinstance(param := params.get("store"), click.Argument) and param.name == "store"  # one, not several
    if not (on_store or _PARAMETER in params) or is_help or ctx.resilient_parsing:
        return args
    present = {key for key, param in params.items() if _is_given(given.get(param.name or ""))}
    file = Path(given[_PARAMETER] if _PARAMETER in present else FILE)
    if "demo" in present:  # it has a store of its own, whatever the file says
        return args
    if on_store and "store" in present:
        if _PARAMETER in present:
            raise click.UsageError("STORE and --config are both given; leave out one of them", ctx)
        return [*args, *_make_key_words(str(given["store"]), params, present, ctx)]
    if _PARAMETER not in params:  # it names the store, or nothing happens
        return args
    found = _read(file) if _PARAMETER in present or file.is_file() else {}
    if on_store and "store" not in found:
        where = f"{file} does not name one" if found else f"there is no {FILE} here that names one"
        raise click.UsageError(f"Missing argument 'STORE': {where}; give it, or --config FILE", ctx)
    if "source" in params:  # where others are used, a wrong key keeps no erasure back
        _check_keys(file, found, params)
    replaced = {key for option in present for key in (option, *_REPLACED.get(option, ()))}
    used = [key for key in found if key not in replaced and key in params and (not on_store or key in _STORE_KEYS)]
    ctx.meta[_META] = (str(file), tuple(used))
    words = [word for key in used for word in _make_words(file, key, found[key], params[key], ctx)]
    return [*args, *words]


def _make_key_words(
    store: str, params: Mapping[str, click.Parameter], present: Set[str], ctx: click.Context
) -> list[str]:
    """The words for the keyring and the key of a store that is named, if the file in this folder names the same one."""
    file = Path(FILE)
    try:
        found = _read(file)
    except (ParameterError, OSError):
        return []
    named = found.get("store")
    if not isinstance(named, str) or not _is_same(_resolve(file, named), store):
        return []
    used = [key for key in _STORE_SECRETS if key in found and key in params and key not in present]
    return [word for key in used for word in _make_words(file, key, found[key], params[key], ctx)]


def _is_same(first: str, second: str) -> bool:
    """Whether two addresses of stores mean the same one."""
    return first == second or ("://" not in first + second and os.path.realpath(first) == os.path.realpath(second))


def find_files(ctx: click.Context) -> tuple[str, tuple[str, ...]]:
    """Find the file with options that is in use, or the one in this folder, and the sources that it names.

    Args:
        ctx: the context of the command.

    Returns:
        The path of the file, which need not exist, and the sources; none if it cannot be read.
    """
    file = Path(ctx.meta.get(_META, (FILE, ()))[0])
    try:
        named = _read(file).get("source", ())
    except (ParameterError, OSError):
        return str(file), ()
    texts = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return str(file), tuple(_resolve(file, text) for text in texts if isinstance(text, str))


def is_on_command_line(ctx: click.Context, name: str) -> bool:
    """Tell whether an option was given on the command line itself, not in a file.

    Args:
        ctx: the context of the command.
        name: name of the option's parameter.

    Returns:
        Whether it was.
    """
    is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return is_given and name.replace("_", "-") not in ctx.meta.get(_META, ("", ()))[1]


def names_store(file: str) -> bool:
    """Tell whether a file with options names a store.

    Args:
        file: its path.

    Returns:
        False also if there is no such file.

    Raises:
        ParameterError: it cannot be read.
    """
    return Path(file).is_file() and "store" in _read(Path(file))


def describe_use(ctx: click.Context) -> str:
    """Say which options a command has from a file.

    Args:
        ctx: the context of the command.

    Returns:
        A sentence; empty if there are none.
    """
    file, keys = ctx.meta.get(_META, ("", ()))
    return f"From {file}: {', '.join(keys)}." if keys else ""


@contextmanager
def name_origins(ctx: click.Context) -> Iterator[None]:
    """Say in an error which of the options that it names are from a file.

    Args:
        ctx: the context of the command.

    Yields:
        Nothing; the options are checked inside.

    Raises:
        ParameterError: the same as inside.
    """
    file, keys = ctx.meta.get(_META, ("", ()))
    try:
        yield
    except ParameterError as problem:
        named = [key for key in keys if re.search(rf"--{re.escape(key)}(?![\w-])", str(problem))]
        if not named:
            raise
        are = "is" if len(named) == 1 else "are"
        raise ParameterError(f"{problem} ({', '.join(named)} {are} from {file})") from None


def _find_key(param: click.Parameter) -> str:
    """The key of a parameter: its long name; that of an argument is singular, also if it takes several values."""
    if isinstance(param, click.Argument):
        return (param.name or "").removesuffix("s")
    return max(param.opts, key=len).lstrip("-")


def _is_given(value: object) -> bool:
    """Whether the parser has found a value; click has several marks for none."""
    return isinstance(value, str | bool) or (isinstance(value, list | tuple) and bool(value))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))  # some editors write a byte-order mark
    except FileNotFoundError:
        raise ParameterError(f"--config {file} does not exist; vestige init writes such a file") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{file}: is not UTF-8, as TOML must be; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ParameterError(f"{file}: is not TOML: {problem}; write lines such as max-age = '30d'") from None


def _check_keys(file: Path, found: Mapping[str, object], params: Mapping[str, click.Parameter]) -> None:
    known = sorted({*params, *_STORE_KEYS, *_NIGHT} - {*_NOT_IN_FILES})
    for key in found:
        if key not in known:
            close = get_close_matches(key.replace("_", "-").removesuffix("s"), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "vestige run --help lists the options"
            raise ParameterError(f"{file}: the key {key!r} is not an option of vestige run; {hint}")
    if (kept := found.get(_RECEIPTS)) is not None:
        _check_duration(file, _RECEIPTS, kept)


def _check_duration(file: Path, key: str, value: object) -> None:
    """Check the value of a key that only another command uses."""
    from vestige.cli.group import parse_duration  # noqa: PLC0415  # which imports this module

    param = click.Option([f"--{key}"], type=parse_duration)
    _check_type(file, key, value, param, several=False)
    _check_value(file, key, str(value), param, click.get_current_context())


def _make_words(file: Path, key: str, value: object, param: click.Parameter, ctx: click.Context) -> Iterator[str]:
    """Write a value as on the command line, once it was checked."""
    several = param.multiple or param.nargs == -1
    values = list(value) if several and isinstance(value, list) else [value]
    for each in values:
        _check_type(file, key, each, param, several=several)
    if isinstance(param, click.Option) and param.is_flag:
        yield from [f"--{key}"] if value else []
        return
    if _is_path(param) and "" in values:
        raise ParameterError(f"{file}: {key} is empty; give the path of a file, or leave the key out")
    texts = [_resolve(file, str(each)) if _is_path(param) else str(each) for each in values]
    _check_value(file, key, texts if several else texts[0], param, ctx)
    yield from texts if isinstance(param, click.Argument) else (f"--{key}={text}" for text in texts)


def _check_type(file: Path, key: str, value: object, param: click.Parameter, *, several: bool) -> None:
    wanted, example = _NUMBERS.get(param.type.name, (str, 'a text in quotes, such as "..."'))
    if isinstance(param, click.Option) and param.is_flag:
        wanted, example = bool, "true or false"
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        many = ', or a list of them, such as ["...", "..."]' if several else ""
        raise ParameterError(f"{file}: {key} = {_write_toml(value)} is not {example}{many}; correct it")


def _write_toml(value: object) -> str:
    """A value as it may stand in the file, cut off if it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_write_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_write_toml(each)}' for key, each in value.items())}}}"
    return show_value(value)


def _check_value(file: Path, key: str, value: str | Sequence[str], param: click.Parameter, ctx: click.Context) -> None:
    try:
        param.type_cast_value(ctx, value)
    except click.BadParameter as problem:
        raise ParameterError(f"{file}: {key}: {problem.message}") from None


def _is_path(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument) or param.metavar in ("FILE", "ADDRESS")


def _resolve(file: Path, path: str) -> str:
    """A path in a file is relative to the file; standard input and addresses with a scheme stay as they are."""
    folder = os.path.dirname(file)
    if path == "-" or path.endswith(":") or "://" in path:
        return path
    joined = os.path.join(folder, path)
    if glob.has_magic(folder) and not os.path.exists(joined):
        joined = os.path.join(glob.escape(folder), path)  # only the path may be a pattern
    return f"./{joined}" if joined.startswith("-") else joined
