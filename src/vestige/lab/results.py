"""Results are a table of trials in one Parquet file per experiment, with the seed and the version that produced them.

Guarantee: a file is complete or absent, and results of another seed, version or experiment are never mixed in; held by
tests/lab/test_runner.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.errors import MissingExtraError, StoreError
from vestige.lab.submission import Submission
from vestige.types import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Averages over trials along one parameter.

    Attributes:
        x: values of the parameter; shape (values,).
        mean: average of the measurement at each of them; shape (values,).
        standard_error: standard error of each average; shape (values,).
    """

    x: Floats
    mean: Floats
    standard_error: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Trials as a table: columns of parameters and measurements, one row per trial.

    Attributes:
        columns: arrays by name, all of one length.
    """

    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Results:
        """Build the table from its rows.

        Args:
            rows: one mapping per trial, all with the same keys.

        Returns:
            The table; empty if there are no rows.

        Example:
            >>> Results.from_rows([{"x": 1, "y": 2.0}, {"x": 1, "y": 4.0}]).mean("y")
            3.0
        """
        return cls({name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def values(self, name: str) -> list[Any]:
        """List the distinct values of a parameter.

        Args:
            name: the parameter.

        Returns:
            Its values, in ascending order.

        Example:
            >>> Results.from_rows([{"x": 2}, {"x": 1}, {"x": 2}]).values("x")
            [1, 2]
        """
        return sorted(set(self.columns[name].tolist())) if len(self) else []

    def where(self, **fixed: str | float) -> Results:
        """Select the trials with given parameters.

        Args:
            **fixed: the value of each parameter.

        Returns:
            The table of these trials.

        Example:
            >>> len(Results.from_rows([{"x": 2}, {"x": 1}, {"x": 2}]).where(x=2))
            2
        """
        selected: Bools = np.ones(len(self), np.bool_)
        for name, value in fixed.items():
            selected &= self.columns[name] == value
        return Results({name: column[selected] for name, column in self.columns.items()})

    def mean(self, name: str) -> float:
        """Average a measurement over all trials.

        Args:
            name: the measurement.

        Returns:
            The average; nan without trials.

        Example:
            >>> Results.from_rows([{"y": 2.0}, {"y": 4.0}]).mean("y")
            3.0
        """
        return float(self.columns[name].mean()) if len(self) else float("nan")

    def standard_error(self, name: str) -> float:
        """Compute the standard error of the average of a measurement.

        Args:
            name: the measurement.

        Returns:
            The standard error; nan with fewer than two trials.

        Example:
            >>> Results.from_rows([{"y": 2.0}, {"y": 4.0}]).standard_error("y")
            1.0
        """
        return float(self.columns[name].std(ddof=1) / np.sqrt(len(self))) if len(self) > 1 else float("nan")

    def series(self, along: str, name: str, **fixed: str | float) -> Series:
        """Average a measurement at each value of a parameter.

        Args:
            along: the parameter.
            name: the measurement.
            **fixed: values of other parameters; trials with other values are left out.

        Returns:
            The averages with their standard errors.

        Example:
            >>> Results.from_rows([{"x": 1, "y": 2.0}, {"x": 1, "y": 4.0}]).series("x", "y").mean
            array([3.])
        """
        selected = self.where(**fixed)
        parts = [(x, selected.where(**{along: x})) for x in selected.values(along)]
        return Series(
            np.array([x for x, _ in parts], np.float64),
            np.array([part.mean(name) for _, part in parts]),
            np.array([part.standard_error(name) for _, part in parts]),
        )


def make_metadata(digest: str, seed: int | None = None, submission: Submission | None = None) -> dict[str, str]:
    """Build the metadata that a file of results carries.

    Args:
        digest: the digest of the experiment.
        seed: seed of the run; None where a reader accepts any.
        submission: the policy from elsewhere that the results are of; None where they are of the experiment's own.

    Returns:
        The version of Vestige, the digest, the seed if given, and the file of the policy with its hash.

    Example:
        >>> make_metadata("0123", seed=7)["vestige.seed"]
        '7'
    """
    metadata = {"vestige.version": version("vestige"), "vestige.experiment": digest}
    if submission is not None:
        metadata |= {"vestige.origin": submission.origin.name, "vestige.sha256": submission.origin.digest}
    return metadata if seed is None else {**metadata, "vestige.seed": str(seed)}


def _import_arrow() -> tuple[Any, Any]:
    """Import the library that reads and writes Parquet, or say how to install it."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the lab", "lab") from None
    return pa, parquet


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> None:
    """Write all rows, so that a reader sees either the old file or the new one.

    Args:
        path: the Parquet file; its folder is created if needed.
        rows: one mapping per trial.
        metadata: see `make_metadata`.

    Raises:
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_rows(Path(folder) / "a.parquet", [{"x": 1}], make_metadata("0123", seed=7))
        ...     read_rows(Path(folder) / "a.parquet"), read_seed(Path(folder) / "a.parquet")
        ([{'x': 1}], 7)
    """
    pa, parquet = _import_arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows)).replace_schema_metadata(dict(metadata))
    draft = path.with_suffix(f".{os.getpid()}.part")
    parquet.write_table(table, draft, compression="zstd")
    draft.replace(path)


def read_seed(path: Path) -> int:
    """Read the seed of the results in a file.

    Args:
        path: the Parquet file.

    Returns:
        The seed; see `write_rows` for an example.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    return int(_import_arrow()[1].read_schema(path).metadata[b"vestige.seed"])


def read_rows(path: Path, expected: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Read the rows of a file; see `write_rows` for an example.

    Args:
        path: the Parquet file.
        expected: metadata that the file must carry; None accepts any.

    Returns:
        One mapping per trial; none if there is no file.

    Raises:
        MissingExtraError: pyarrow is not installed.
        StoreError: the results are of another seed, version or experiment.
    """
    if not path.exists():
        return []
    table = _import_arrow()[1].read_table(path)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    for name, value in (expected or {}).items():
        if metadata.get(name) != value:
            raise StoreError(
                f"{path} has results of {name.removeprefix('vestige.')} {metadata.get(name)}, not {value}; start over "
                "with --fresh, or use another --out"
            )
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
