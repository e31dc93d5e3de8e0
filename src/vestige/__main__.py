"""The `vestige` command, or how to install it."""

from __future__ import annotations

import sys

from vestige.errors import MissingExtraError


def main() -> None:
    """Run the command."""
    try:
        from vestige.cli import command  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        sys.exit(f"vestige: {MissingExtraError(f'the command (here: {missing.name})', 'cli')}")
    command(prog_name="vestige")


if __name__ == "__main__":
    main()
