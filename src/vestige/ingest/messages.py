"""Messages of a run: what is wrong with a row of a call, said of the row of the source.

Guarantee: a message names the row by its number in the source, and remedies that `vestige run` has; held by
tests/ingest/test_ingest.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vestige.errors import VestigeError
from vestige.types import Ints

_REPLACEMENTS = (
    (r" \(counted from 0\)", ""),
    (": nothing of this call was taken", ""),
    (r"max_ahead=(\d+ days?), 0:00:00", r"--max-ahead \1"),
    ("max_ahead=", "--max-ahead "),
    ("correct it or drop the row, set the clock right, or allow more", "correct it, or allow more with --max-ahead"),
    (
        r"sort the records by time, set the clock right, or allow rows to be late with lateness=\.\.\.",
        "correct it, or allow rows to be late with --lateness",
    ),
)
"""What the library says of a call, and what a run says of rows in a file, which cannot be moved."""


def translate_error(problem: str, numbers: Ints, columns: Sequence[str] = ()) -> str:
    """Translate an error about a call of `Stream.extend` into one about a source.

    Args:
        problem: message of the error.
        numbers: number of each row of the call in the source.
        columns: names of the columns of numbers; default: they are told by their places.

    Returns:
        The message for users of `vestige run`.

    Example:
        >>> import numpy as np
        >>> translate_error("row 1 of 2, column 0, is missing (counted from 0)", np.array([40, 41]))
        'row 41, column 0, is missing'
        >>> translate_error("row 1 of 2, column 0, is missing (counted from 0)", np.array([40, 41]), ["spent"])
        "row 41, column 'spent', is missing"
    """
    text = problem
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    if columns:
        text = re.sub(r"\bcolumn (\d+)", lambda match: f"column {columns[int(match[1])]!r}", text, count=1)
    return re.sub(r"\brow (\d+)(?: of \d+)?", lambda match: f"row {int(numbers[int(match[1])]):,}", text, count=1)


def explain_problem(problem: Exception, numbers: Ints) -> str:
    """Say why a stream took no row, without what exceptions of other libraries may tell of it.

    Args:
        problem: what was raised.
        numbers: number of each row of the call in the source.

    Returns:
        The message for users of `vestige run`.

    Example:
        >>> import numpy as np
        >>> explain_problem(ZeroDivisionError("1 / 0"), np.array([40]))
        'its policy failed with ZeroDivisionError'
    """
    if isinstance(problem, VestigeError):
        return translate_error(str(problem), numbers)
    return f"its policy failed with {type(problem).__name__}"
