"""Results are a table of trials in one Parquet file per experiment, with the seed and the version that made them.

Guarantee: a file is whole or not there, and results of another seed, version or experiment are never mixed in; held by
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
from vestige.types import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Averages over trials along one parameter, with their standard errors; shape (values,) each."""

    x: Floats
    mean: Floats
    error: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Columns of parameters and measurements, one row per trial."""

    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Results:
        """From rows that have the same keys."""
        return cls({name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def values(self, name: str) -> list[Any]:
        """The values that a parameter takes, in order."""
        return sorted(set(self.columns[name].tolist())) if len(self) else []

    def where(self, **fixed: str | float) -> Results:
        """The trials with these parameters."""
        chosen: Bools = np.ones(len(self), np.bool_)
        for name, value in fixed.items():
            chosen &= self.columns[name] == value
        return Results({name: column[chosen] for name, column in self.columns.items()})

    def mean(self, name: str) -> float:
        """The average of a measurement."""
        return float(self.columns[name].mean()) if len(self) else float("nan")

    def error(self, name: str) -> float:
        """The standard error of that average."""
        return float(self.columns[name].std(ddof=1) / np.sqrt(len(self))) if len(self) > 1 else float("nan")

    def series(self, along: str, name: str, **fixed: str | float) -> Series:
        """The average of a measurement at each value of a parameter."""
        mine = self.where(**fixed)
        parts = [(x, mine.where(**{along: x})) for x in mine.values(along)]
        return Series(
            np.array([x for x, _ in parts], np.float64),
            np.array([part.mean(name) for _, part in parts]),
            np.array([part.error(name) for _, part in parts]),
        )


def made_by(digest: str, seed: int | None = None) -> dict[str, str]:
    """What a file of results says of itself; a reader may not care for the seed."""
    made = {"vestige.version": version("vestige"), "vestige.experiment": digest}
    return made if seed is None else {**made, "vestige.seed": str(seed)}


def _arrow() -> tuple[Any, Any]:
    """The library that reads and writes Parquet, or how to install it."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the lab", "lab") from None
    return pa, parquet


def write(path: Path, rows: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> None:
    """Write all rows, so that a reader sees the old file or the new one."""
    pa, parquet = _arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows)).replace_schema_metadata(dict(made))
    draft = path.with_suffix(f".{os.getpid()}.part")
    parquet.write_table(table, draft, compression="zstd")
    draft.replace(path)


def seed_of(path: Path) -> int:
    """The seed of the results in a file."""
    return int(_arrow()[1].read_schema(path).metadata[b"vestige.seed"])


def read(path: Path, made: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The rows of a file, none if it is not there; an error if something else made them than is said."""
    if not path.exists():
        return []
    table = _arrow()[1].read_table(path)
    found = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    for name, value in (made or {}).items():
        if found.get(name) != value:
            raise StoreError(
                f"{path} has results of {name.removeprefix('vestige.')} {found.get(name)}, not {value}; begin anew "
                "with --fresh, or use another --out"
            )
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
