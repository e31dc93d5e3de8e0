"""Small tables: plain HTML for notebooks, which a screen reader can follow; text for consoles; and data frames.

Guarantee: every text is escaped, and each table has a caption and headers with a scope; held by tests/test_markup.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from vestige.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def make_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Make a table in HTML.

    Args:
        caption: what the table shows.
        header: the name of each column.
        rows: the texts of each row; the first one names the row.
        notes: sentences to show below the table.

    Returns:
        The table, with every text escaped.

    Example:
        >>> make_table("Means", ("column", "mean"), [("a < b", "1.5")]).count("&lt;")
        1
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in others)}</tr>'
        for first, *others in rows
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    top = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
    return f"<table>{top}<tbody>{body}</tbody></table>{below}"


def make_text(header: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Make a table of text, for a console.

    Args:
        header: the name of each column.
        rows: the texts of each row.
        notes: sentences to show below the table.

    Returns:
        The table, one line for each row; columns are as wide as their longest text.

    Example:
        >>> print(make_text(("column", "mean"), [("amount", "1.5")]))
        column  mean
        amount  1.5
    """
    table = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([*lines, *notes])


def make_frame(rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Make a data frame.

    Args:
        rows: the values of each row by column.

    Returns:
        The data frame.

    Raises:
        MissingExtraError: pandas is not installed.

    Example:
        >>> make_frame([{"a": 1.5}])["a"].tolist()
        [1.5]
    """
    try:
        import pandas as pd  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("to_pandas", "pandas") from None
    return pd.DataFrame(list(rows))


def format_bytes(count: int) -> str:
    """Format a number of bytes to three digits.

    Args:
        count: number of bytes.

    Returns:
        A text with a unit.

    Example:
        >>> format_bytes(20_992), format_bytes(999_999)
        ('21 kB', '1 MB')
    """
    count = int(float(f"{count:.3g}"))
    power = min(int(math.log10(max(count, 1))) // 3, 4)
    return f"{count / 1_000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def format_microseconds(seconds: float) -> str:
    """Format a short time to two digits.

    Args:
        seconds: the time.

    Returns:
        A text with a unit.

    Example:
        >>> format_microseconds(1.234e-6)
        '1.2 µs'
    """
    micro = float(f"{seconds * 1e6:.2g}")
    return f"{micro:g} µs" if micro < 1_000.0 else f"{micro / 1_000.0:g} ms"


def join_notes(rows: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Join the notes of the rows of a table: each note once, after the names of the rows that have it.

    Args:
        rows: the name and the notes of each row.

    Yields:
        A line for each note.

    Example:
        >>> list(join_notes([("Mean", ["Short."]), ("Sum", ["Short."])]))
        ['Mean; Sum: Short.']
    """
    names: dict[str, list[str]] = {}
    for name, notes in rows:
        for note in notes:
            names.setdefault(note, []).append(name)
    for note, concerned in names.items():
        yield f"{'; '.join(concerned)}: {note}"
