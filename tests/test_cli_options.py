"""Options of all commands: one that is given twice is refused, never silently the last one."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from vestige.cli import command
from vestige.cli.group import load_commands


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, entry in group.commands.items():
        if isinstance(entry, click.Group):
            yield from leaves(entry, (*path, name))
        else:
            yield (*path, name), entry


SINGLE = [
    pytest.param(path, option, id=" ".join((*path, option.opts[0])))
    for path, entry in leaves(load_commands())
    for option in entry.params
    if isinstance(option, click.Option) and not (option.multiple or option.is_flag)
]


@pytest.mark.parametrize(("path", "option"), SINGLE)
def test_an_option_given_twice_is_refused(path: tuple[str, ...], option: click.Option) -> None:
    name = option.opts[0]
    result = CliRunner().invoke(command, [*path, "x", name, "96", name, "128"], prog_name="vestige")
    assert result.exit_code == 2
    assert f"{name} is given 2 times; give it once" in result.stderr


def test_what_may_be_given_again_still_may() -> None:
    result = CliRunner().invoke(
        command,
        ["run", "-", "--column", "a", "--column", "b", "--retention", "256", "--json", "--json"],
        input="a,b\n1,2\n",
        prog_name="vestige",
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("path", [path for path, _ in leaves(load_commands())], ids=" ".join)
def test_the_help_of_an_option_stands_alone(path: tuple[str, ...]) -> None:
    """It is read without the one above: it refers to nothing that only stands there."""
    entry = dict(leaves(command))[path]
    for option in entry.params:
        if isinstance(option, click.Option):
            text = option.help or ""
            assert len(text.split()) > 2, option.opts
            assert not text.startswith(("With it", "Of ", "The same", "Instead", "In each", "Whether he")), option.opts
