"""Values in the order of rounds, so that a floating-point sum does not depend on how records are stored.

Guarantee: the same bits for any storage order; held by tests/test_paper.py.
"""

from __future__ import annotations

import numpy as np

from vestige.records import Records
from vestige.types import Floats


def sort_values(records: Records) -> Floats:
    """Return the values of records in the order of their rounds.

    Args:
        records: the records.

    Returns:
        Their values; shape (n, columns).

    Example:
        >>> sort_values(Records([7, 5], [[0.7], [0.5]])).tolist()
        [[0.5], [0.7]]
    """
    return records.values[np.argsort(records.rounds, kind="stable")]
