"""Categories of a column of text, found in a file where they are not declared.

What is found becomes part of a stream's terms, which outlive its records, so a text that few rows have is not taken.
Guarantee: the categories are those of pandas' counts; held by tests/sources/test_categories.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from vestige.errors import SourceError
from vestige.policies.histogram import OTHER
from vestige.sources.file import FileSource

MIN_ROWS = 20
"""Number of rows that a text must have to become a category."""
MAX_CATEGORIES = 50
"""Maximum number of categories that are found; the most frequent ones are taken."""


def find_categories(source: FileSource, column: str) -> tuple[str, ...]:
    r"""Find the categories of a column: the texts of at least 20 rows, at most 50 of them.

    Args:
        source: file that has the column; all its rows are read.
        column: column of text.

    Returns:
        The categories in alphabetical order; `("false", "true")` if the column has nothing else.

    Raises:
        SourceError: the file cannot be read, or no text has enough rows.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "visits.csv")
        ...     _ = path.write_text("status\n" + "ok\n" * 30 + "failed\n" * 20 + "lost\n" * 19)
        ...     find_categories(FileSource(str(path), ["status"]), "status")
        ('failed', 'ok')
    """
    counts = _count_texts(source, column)
    from vestige.sources.columns import BOOLEANS  # noqa: PLC0415  # Arrow takes half a second to import

    if counts and {text.lower() for text in counts} <= set(BOOLEANS):
        return BOOLEANS
    frequent = [text for text, rows in counts.most_common(MAX_CATEGORIES) if rows >= MIN_ROWS]
    if not frequent:
        raise SourceError(
            f"{source.path}: no text in column {column!r} has {MIN_ROWS} rows, so its categories cannot be found; "
            f"declare them, such as --metric {column}:shares[ok,failed] or --categories ok,failed"
        )
    return tuple(sorted(frequent))


def _count_texts(source: FileSource, column: str) -> Counter[str]:
    """Count the rows of each text, without blanks around it; what stands for a missing value is not counted."""
    reader = replace(
        source,
        columns=(column,),
        time=None,
        subject=None,
        by=column,
        keep_missing=True,
        hash_key=None,
        categories={column: (column,)},
    )
    counts: Counter[str] = Counter()
    for block in reader.blocks():
        if block.keys is None or block.codes is None or not len(block.codes):
            continue
        import pyarrow as pa  # noqa: PLC0415  # it takes half a second to import

        from vestige.sources.timestamps import normalize_text  # noqa: PLC0415

        texts = normalize_text(pa.array(block.keys, pa.string())).to_pylist()
        for text, rows in zip(texts, np.bincount(block.codes, minlength=len(texts)).tolist(), strict=True):
            if text and text != OTHER:
                counts[text] += rows
    return counts
