"""Small tables for notebooks: plain HTML that a screen reader can follow, without a style of its own.

Guarantee: every text is escaped, and each table has a caption and headers with a scope; held by tests/test_markup.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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
