"""What a firm declares of records that are missing or were changed: removals, corrections and rules, each as ids.

A declaration excuses records; it is not believed. `vestige.audit.table` counts them, tests all gaps as if nothing had
been declared, and the removals for being chosen themselves.
Guarantee: no declaration makes a published code invisible; held by tests/audit/test_declared.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from vestige.errors import ParameterError
from vestige.validation import check_choice, show_value

Kind = Literal["removal", "correction", "rule"]


@dataclass(frozen=True, slots=True)
class DeclaredRecords:
    """Records of which a firm declares why they are missing or were changed.

    Attributes:
        kind: "removal" if they left whatever their values are, as on request; "correction" if their values were put
            right; "rule" if a rule removes them, which may look at values.
        ids: their ids.
        name: the reason or the rule, for the report.
        is_checked: whether the snapshots themselves show which records these are, as a condition on one of their
            columns does; a list is what the firm says.

    Raises:
        ParameterError: the kind is another one, or `ids` is not a list.

    Example:
        >>> DeclaredRecords("rule", [7, 12], "cancelled trades").ids
        ('7', '12')
    """

    kind: Kind
    ids: Sequence[object]
    name: str = ""
    is_checked: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        if isinstance(self.ids, str | bytes) or not isinstance(self.ids, Iterable):
            raise ParameterError(f"ids={show_value(self.ids)} is not a list of ids; pass ids, or an empty list")
        object.__setattr__(self, "ids", tuple(dict.fromkeys(map(str, self.ids))))
