"""What a policy needs to be offered by name: to be made from columns, to name its numbers and to make tables of them.

Both kinds of policies that keep a statistic are derived from it: those that write averages through a channel
(`vestige.policies.base`), and those that hold a state bit for bit or need nothing but the clock.
Guarantee: the command offers every one in the registry; held by tests/test_additions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from vestige.errors import ParameterError
from vestige.estimate import E_co
from vestige.policies.report import Report, make_plain_report
from vestige.policy import Policy
from vestige.types import Floats


def refuse_half_life(statistic: str, half_life: float | None) -> None:
    """Refuse a half-life for a statistic in which all records count alike.

    Args:
        statistic: its name for `--statistic`.
        half_life: the half-life, in records.

    Raises:
        ParameterError: there is one.

    Example:
        >>> refuse_half_life("count", None)
    """
    if half_life is not None:
        raise ParameterError(
            f"half_life={half_life} is not for --statistic {statistic}, in which all records count alike; leave it out"
        )


class NamedPolicy(Policy[E_co]):
    """A policy that the command can offer by name; derive your own from `Encoded` or from this, a frozen dataclass.

    Attributes:
        name: its name for `--statistic`; empty where the command does not offer it.
        min_targets: the fewest columns that it explains by the others, such as the output of a regression.
        max_targets: the most; None if there is no limit.
        min_columns: the fewest columns besides the targets.
        max_columns: the most columns besides the targets; None if there is no limit.
        takes_edges: whether it is told the edges of bins, as `--edges`.
        takes_categories: whether it is told the names of categories, as `--categories`.
        half_life: after this number of records, a record counts half as much; None if all count alike.
    """

    name: ClassVar[str] = ""
    min_targets: ClassVar[int] = 0
    max_targets: ClassVar[int | None] = 0
    min_columns: ClassVar[int] = 1
    max_columns: ClassVar[int | None] = None
    takes_edges: ClassVar[bool] = False
    takes_categories: ClassVar[bool] = False
    half_life: float | None = None

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Self:  # noqa: ARG003
        """Make the policy that the command runs for a number of columns.

        Args:
            columns: the number of columns, without targets.
            targets: the number of targets.
            channel: the name of a channel.
            half_life: see `half_life`.

        Returns:
            the policy.

        Raises:
            ParameterError: the statistic has no such form.
        """
        if cls.takes_edges:
            raise ParameterError(f"{cls.name} needs the edges of its bins; write it as {cls.name}[0,10,20]")
        raise ParameterError(f"{cls.__name__} cannot be made from columns alone; pass it in Python")

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> Self:  # noqa: ARG003
        """Make the policy from what it is told in text, such as the edges of a histogram.

        Args:
            options: the texts.
            columns: the number of columns.
            half_life: see `half_life`.

        Returns:
            the policy.

        Raises:
            ParameterError: the statistic does not take these options.
        """
        raise ParameterError(f"--statistic {cls.name} does not take options such as {options[0]!r}; leave them out")

    def name_categories(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:  # noqa: ARG002
        """Name the categories of the columns whose values are numbers of categories; a source reads those as text.

        Args:
            columns: the names of the columns of a record, targets last.

        Returns:
            the names of the categories by column, none for a column of any texts, whose values are hashes of these;
            empty where all columns are numbers.
        """
        return {}

    @property
    def metric_name(self) -> str:
        """Its name after the column of a metric, such as p50; default: its name for `--statistic`."""
        return self.name

    @property
    def default_retention(self) -> int:
        """The retention used by default: two of the smallest batches."""
        return 2 * self.min_batch

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """What a plan says about its own error, in sentences: that of a sketch does not depend on the retention."""
        return ()

    def report(self, estimate: E_co, columns: Sequence[str]) -> Report:  # type: ignore[misc]
        """Make a table of an answer.

        Args:
            estimate: the answer.
            columns: the names of the columns of a record, targets last.

        Returns:
            the table, and the same facts for machines.
        """
        return make_plain_report(estimate, self.labels(columns))

    def describe_rows(self, mean: float) -> str:
        """Describe the records that `draw_rows` draws, for people.

        Args:
            mean: the mean of each column.

        Returns:
            the description.
        """
        return f"normal records, mean {mean:g} and deviation 1"

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records to plan with where there is no sample: normal, with standard deviation 1 in each column.

        Args:
            rng: the source of randomness.
            count: the number of records.
            mean: the mean of each column.

        Returns:
            the records; shape (count, columns).
        """
        return rng.normal(mean, 1.0, (count, self.columns))
