"""The `vestige` command, or how to install it."""

from __future__ import annotations

import sys
import traceback

from vestige.errors import MissingExtraError


def main() -> None:
    """Run the command."""
    try:
        from vestige.cli import command  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        print(f"vestige: {MissingExtraError(f'the command (here: {missing.name})', 'cli')}", file=sys.stderr)
        sys.exit(2)
    try:
        command(prog_name="vestige")
    except Exception:  # a mistake of ours is an error, and not the finding that Python's own status would say
        traceback.print_exc()
        sys.exit(2)


if __name__ == "__main__":
    main()
