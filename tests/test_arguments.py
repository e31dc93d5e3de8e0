"""Wrong arguments: every public callable takes a value or refuses it in a sentence; no raw exception comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice, product
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pytest

import vestige.errors
from vestige import (
    Batched,
    Bundle,
    Correlation,
    Count,
    Covariance,
    CustomLoss,
    Distinct,
    ExactHistogram,
    Extremes,
    Histogram,
    HistogramQuantiles,
    KeyedStreams,
    LinearRegression,
    LogisticRegression,
    Mean,
    Memory,
    MemoryStore,
    Moments,
    Private,
    Quantiles,
    Ratio,
    Shares,
    SqliteStore,
    Stream,
    Sum,
    TopK,
    Window,
    audit,
    checks,
    operations,
    paper,
    planning,
    store,
    subset,
    theory,
)
from vestige.clock import Clock
from vestige.errors import ParameterError, VestigeError
from vestige.policies.metrics import parse_metrics
from vestige.policy import Policy
from vestige.records import Records
from vestige.sources import FileSource
from vestige.validation import check_float


class Broken:
    """A whole number that fails as it is used."""

    def __index__(self) -> int:
        raise RuntimeError


BAD: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "-1": lambda: -1,
    "0": lambda: 0,
    "10**12": lambda: 10**12,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "0.5": lambda: 0.5,
    "1e-320": lambda: 1e-320,
    "1e300": lambda: 1e300,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1j": lambda: 1j,
    "an empty text": lambda: "",
    "x": lambda: "x",
    "bytes": lambda: b"x",
    "a lone surrogate": lambda: "\ud800",
    "NUL": lambda: "a\0b",
    "[]": list,
    "[[]]": lambda: [[]],
    "[None]": lambda: [None],
    "['x']": lambda: ["x"],
    "['\\ud800']": lambda: ["\ud800"],
    "[10**400]": lambda: [10**400],
    "[nan]": lambda: [float("nan")],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "[[[1]]]": lambda: [[[1.0]]],
    "[object]": lambda: [object()],
    "an array of texts": lambda: np.array(["x", "y"]),
    "an array of bools": lambda: np.array([True, False]),
    "an array of times": lambda: np.array(["NaT", "2024-01-01"], "datetime64[s]"),
    "times in years": lambda: np.array([2**40], "datetime64[Y]"),
    "an array without dimensions": lambda: np.array(3),
    "a whole number that fails": Broken,
    "an object": object,
    "a type": lambda: int,
    "a generator": lambda: (i for i in (1, 2)),
    "a generator of texts": lambda: (text for text in ("a", "\ud800")),
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1, 2},
    "a function": lambda: lambda: None,
    "a time": lambda: datetime(2024, 5, 31),
    "the last time": lambda: datetime.max.replace(tzinfo=UTC),
    "the longest duration": lambda: timedelta.max,
    "a negative duration": lambda: timedelta(-1),
}
Call = tuple[Callable[..., object], dict[str, object]]


def loss(parameters: Any, rows: Any) -> Any:
    return rows - parameters


def keep_state(state: bytes, rows: Any) -> bytes:  # noqa: ARG001
    return state


def opened(policy: Callable[..., Policy]) -> Callable[..., object]:
    """Make the policy, and use it."""

    def make(**options: object) -> None:
        made = policy(**options)
        stream = Stream(made, retention=getattr(made, "default_retention", 96))
        stream.push([1.0] * made.columns)

    return make


def streaming() -> Stream:
    stream = Stream(Mean(), retention=128, max_age=timedelta(days=30), seed=0, store=MemoryStore().stream("s"))
    stream.extend([1.0, 2.0], times=[datetime(2024, 1, 1), datetime(2024, 1, 2)], subjects=["a", "b"])
    return stream


def batched() -> Batched:
    made = Batched(Mean(), batch=56, seed=0)
    made.push(np.ones(56))
    return made


def filled() -> MemoryStore:
    made = MemoryStore()
    Stream(Mean(), retention=128, store=made.stream("s")).extend([1.0, 2.0], subjects=["a", "b"])
    made.flush()
    return made


def consume(**options: Any) -> list[object]:
    return list(islice(subset.improve(**options), 2))


def _check_store(factory: object, seed: Any) -> None:
    made = MemoryStore()
    checks.check_store((lambda: made) if factory is True else factory, seed=seed)  # type: ignore[arg-type]


def read_blocks(path: Path) -> Callable[..., object]:
    def read(columns: Any, position: Any, **options: Any) -> object:
        return list(FileSource(str(path), columns, **options).blocks(position))

    return read


def keyed_streams() -> KeyedStreams:
    """A few streams."""
    keyed = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=10_000), seed=0)
    keyed.extend(["a", "b"], [1.0, 2.0], times=[datetime(2024, 5, 30)] * 2, subjects=["ada", "bob"])
    return keyed


def calls(folder: Path) -> dict[str, Call]:
    """Each public callable with arguments that work."""
    records = Records([1, 2], [[1.0], [2.0]])
    snapshot = audit.Snapshot(records, Clock(t=2, first=1, last=2))
    tables: dict[str, object] = {"tp": 5, "fn": 1, "fp": 1, "tn": 5, "confidence": 0.9}
    labels: dict[str, object] = {
        "times": [datetime(2024, 1, 3)],
        "subjects": ["a"],
        "source": "f",
        "numbers": np.array([1]),
        "positions": [b"1"],
    }
    limits: dict[str, object] = {
        "retention": 128,
        "notice": 128,
        "max_age": timedelta(1),
        "max_ahead": timedelta(hours=1),
    }
    small: dict[str, object] = {"trials": 20, "confidence": 0.9, "seed": 0}
    made: dict[str, Call] = {
        "Mean": (opened(Mean), {"dim": 1, "channel": "auto", "half_life": 9.0, "tolerance": 0.1, "spread": False}),
        "Sum": (opened(Sum), {"dim": 1}),
        "Correlation": (opened(Correlation), {"dim": 2, "half_life": 9.0}),
        "Histogram": (opened(Histogram), {"edges": (0.0, 1.0), "half_life": 9.0}),
        "ExactHistogram": (opened(ExactHistogram), {"edges": (0.0, 1.0), "bits": 12, "reserve": 0.1}),
        "Shares": (opened(Shares), {"categories": ("a", "b"), "half_life": 9.0}),
        "Ratio": (opened(Ratio), {"half_life": 9.0}),
        "Count": (opened(Count), {"columns": 1}),
        "Moments": (opened(Moments), {"order": 2, "half_life": 9.0}),
        "Covariance": (opened(Covariance), {"dim": 2, "half_life": 9.0}),
        "LinearRegression": (opened(LinearRegression), {"dim": 1, "intercept": True, "outputs": 1, "half_life": 9.0}),
        "LogisticRegression": (opened(LogisticRegression), {"dim": 1, "classes": 2, "l2": 0.1, "half_life": 9.0}),
        "CustomLoss": (opened(CustomLoss), {"loss": loss, "start": (0.0,), "columns": 1, "half_life": 9.0}),
        "Memory": (
            opened(Memory),
            {"bits": 12, "step": keep_state, "conclude": len, "start": None, "columns": 1, "reserve": 0.1},
        ),
        "Extremes": (opened(Extremes), {"dim": 1, "reserve": 0.1}),
        "Distinct": (opened(Distinct), {"buckets": 16, "reserve": 0.1}),
        "HistogramQuantiles": (
            opened(HistogramQuantiles),
            {"edges": [0.0, 1.0], "probabilities": [0.5], "half_life": 9.0},
        ),
        "Quantiles": (opened(Quantiles), {"probabilities": [0.5], "size": 10, "reserve": 0.1}),
        "TopK": (opened(TopK), {"k": 1, "counters": 10, "reserve": 0.1}),
        "Bundle": (opened(Bundle), {"metrics": {"a": Mean()}, "half_life": 9.0}),
        "parse_metrics": (parse_metrics, {"texts": ["a:shares"], "half_life": 9.0, "categories": {"a": ["b"]}}),
        "Private": (opened(Private), {"policy": Mean(), "bound": 1.0, "epsilon": 1.0, "delta": 1e-6}),
        "Window": (opened(Window), {"policy": Mean()}),
        "SimpleMean": (opened(paper.SimpleMean), {"dim": 1}),
        "CoordinateMean": (opened(paper.CoordinateMean), {"dim": 1}),
        "Regression": (opened(paper.Regression), {"dim": 1, "group": 4, "smallest_eigenvalue": 1.0, "offset": 1.0}),
        "Stream": (
            Stream,
            {"policy": Mean(), **limits, "lateness": timedelta(hours=1), "seed": 0, "store": None}
            | {"retained": None, "clock": None},
        ),
        "KeyedStreams": (
            KeyedStreams,
            {"policy": Mean(), **limits, "lateness": timedelta(hours=1), "seed": 0, "workers": 1},
        ),
        "KeyedStreams.extend": (
            lambda **options: KeyedStreams(Mean(), retention=96, seed=0).extend(**options),
            {"keys": ["a"], "rows": [1.0], "times": [None], "subjects": ["a"]},
        ),
        "KeyedStreams.take": (
            lambda **options: KeyedStreams(Mean(), retention=96, seed=0).take(**options),
            {"keys": ["a"], "rows": [1.0], "times": [None], "subjects": ["a"], "numbers": [1]},
        ),
        "combine": (vestige.combine, {"estimates": [keyed_streams().estimate("a")]}),
        "KeyedStreams.estimates": (lambda keys: keyed_streams().estimates(keys), {"keys": ["a"]}),
        "KeyedStreams.counts": (lambda keys: keyed_streams().counts(keys), {"keys": ["a"]}),
        "KeyedStreams.estimate": (lambda key: keyed_streams().estimate(key), {"key": "a"}),
        "KeyedStreams.forget": (
            lambda **options: keyed_streams().forget(**options),
            {"subject": "ada", "now": True, "reference": "T-1", "keep_receipt": timedelta(days=1)},
        ),
        "KeyedStreams.sweep": (lambda **options: keyed_streams().sweep(**options), {"at": datetime(2024, 5, 31)}),
        "KeyedStreams.remove": (lambda key: keyed_streams().remove(key), {"key": "a"}),
        "Batched": (Batched, {"policy": Mean(), "batch": 56, "seed": 0, "retained": None, "clock": None}),
        "Records": (
            Records,
            {"rounds": [1], "values": [[1.0]], "leaving": [0], "times": np.array(["2024-01-01"], "datetime64[us]")}
            | {"subjects": ["a"], "numbers": [1]},
        ),
        "Clock": (Clock, {"t": 2, "first": 1, "last": 2, "since": 1, "due": None, "updates": 0}),
        "Position": (store.Position, {"value": b"1", "slot": 1}),
        "Stream.push": (
            lambda **options: streaming().push(**options),
            {"row": 1.0, "time": datetime(2024, 1, 3), "subject": "a"},
        ),
        "Stream.extend": (lambda **options: streaming().extend(**options), {"rows": [1.0], **labels}),
        "Stream.forget": (
            lambda **options: streaming().forget(**options),
            {
                "rounds": [1],
                "now": True,
                "receipt_id": "0123456789abcdef",
                "reference": "T-1",
                "keep_receipt": timedelta(days=1),
            },
        ),
        "Stream.forget by subject": (lambda **options: streaming().forget(**options), {"subject": "a", "now": False}),
        "Stream.position": (lambda **options: streaming().position(**options), {"source": "f"}),
        "Stream.forget_each": (
            lambda **options: streaming().forget_each(**options),
            {"requests": [[1]], "now": True, "receipt_ids": ["0123456789abcdef"]},
        ),
        "Stream.sweep": (lambda **options: streaming().sweep(**options), {"at": datetime(2024, 1, 3)}),
        "Batched.push": (lambda **options: batched().push(**options), {"rows": np.ones(56)}),
        "Batched.extend": (lambda **options: batched().extend(**options), {"rows": np.ones(112)}),
        "Batched.forget": (lambda **options: batched().forget(**options), {"rounds": [1]}),
        "SqliteStore": (
            lambda **options: SqliteStore(**options).close(),
            {"path": folder / "new.db", "key": folder / "k", "patience": 0.01},
        ),
        "open_store": (
            lambda **options: store.open_store(**options).close(),
            {"address": folder / "other.db", "key": folder / "k", "patience": 0.01, "create": True},
        ),
        "Source.blocks": (
            read_blocks(folder / "rows.csv"),
            {
                "columns": ["a"],
                "time": "at",
                "subject": "who",
                "by": "who",
                "position": b"",
                "identity": b"",
                "every": 1.0,
                "time_unit": "s",
                "growing": True,
            },
        ),
        "run_appendix_d": (audit.run_appendix_d, small),
        "area_under_curve": (audit.area_under_curve, {"null": np.ones(3), "alternative": np.zeros(3)}),
        "epsilon_ceiling": (audit.epsilon_ceiling, {"trials": 100, "confidence": 0.9, "delta": 0.0}),
        "epsilon_lower_bound": (audit.epsilon_lower_bound, {**tables, "delta": 0.0}),
        "mu_lower_bound": (audit.mu_lower_bound, tables),
        "total_variation_lower_bound": (audit.total_variation_lower_bound, tables),
        "measure_trade_off": (
            audit.measure_trade_off,
            {"null": np.zeros(3), "alternative": np.ones(3), "thresholds": np.array([0.5]), "confidence": 0.9},
        ),
        "gaussian_trade_off": (audit.gaussian_trade_off, {"rate": 0.1, "mu": 1.0}),
        "approximate_trade_off": (audit.approximate_trade_off, {"rate": 0.1, "epsilon": 1.0, "delta": 0.0}),
        "default_policies": (audit.default_policies, {"bound": 3.0}),
        "run_outlier": (audit.run_outlier, {"trials": 1, "seed": 0}),
        "detect": (audit.detect, {"snapshots": [snapshot], "removed": (), "trials": 99, "seed": 0}),
        "audit_table": (
            audit.audit_table,
            {"snapshots": [audit.TableSnapshot([1, 2, 4], [1.0, 2.0, 3.0])], "declared": ()}
            | {"level": 0.01, "trials": 99, "seed": 0},
        ),
        "plan_table": (
            audit.plan_table,
            {"size": 60, "snapshots": [2], "values": [1.0, 2.0], "level": 0.01, "repetitions": 1, "seed": 0},
        ),
        "measure_leakage": (
            audit.measure_leakage,
            {"policy": Mean(channel="bits"), "retention": 128, "t": 300, "erased_at": 150, "adversary": "knows-all"}
            | {"data": None, "values": (0.0, 1.0), "delta": 0.0, "workers": 1, **small},
        ),
        "compare": (
            audit.compare,
            {
                "policies": {"m": Mean()},
                "retention": 128,
                "batches": 2,
                "trials": 20,
                "data": None,
                "seed": 0,
                "workers": 1,
            },
        ),
        "plan": (
            planning.plan,
            {"policy": Mean(), "error": None, "records": 1_000, "sample": np.arange(120.0), "mean": None}
            | {"epsilon": 1.0, "delta": 1e-6, "bound": 200.0},
        ),
        "plan_max_age": (
            planning.plan_max_age,
            {"policy": Mean(), "max_age": timedelta(days=30), "rate": 50.0, "records": 1_000, "error": None}
            | {"sample": np.arange(120.0), "mean": None, "epsilon": 1.0, "delta": 1e-6, "bound": 200.0},
        ),
        "predict": (
            planning.predict,
            {"policy": Mean(), "retention": 128, "records": 1_000, "sample": np.arange(120.0), "mean": None},
        ),
        "nearest_average": (
            subset.nearest_average,
            {"values": np.arange(8.0), "target": 2.0, "tolerance": 0.0, "method": "auto", "keep": None, "seed": 0},
        ),
        "nearest_averages": (
            subset.nearest_averages,
            {"values": np.ones((2, 8)), "targets": np.ones(2), "tolerance": 0.0, "method": "auto", "seed": 0},
        ),
        "improve": (consume, {"values": np.arange(8.0), "target": 2.0, "keep": None, "seed": 0}),
        "open_reader": (
            lambda path, patience: store.open_reader(path, patience=patience).snapshot(),
            {"path": folder / "good.db", "patience": 0.01},
        ),
        "verify": (
            lambda path, **given: store.open_reader(path).verify(**given),
            {"path": folder / "good.db", "at": None, "canaries": (b"x",)},
        ),
        "forget": (
            operations.forget,
            {
                "store": filled(),
                "subjects": ["a"],
                "rounds": (),
                "streams": ["s"],
                "now": False,
                "references": ["T-1"],
                "keep_receipts": timedelta(days=1),
            },
        ),
        "sweep": (
            operations.sweep,
            {"store": filled(), "at": datetime(2024, 1, 1, tzinfo=UTC), "dry_run": False, "exclude": ["t"]},
        ),
        "remove": (operations.remove, {"store": filled(), "streams": ["s"]}),
        "generate_key": (operations.generate_key, {"path": folder / f"{token_hex(8)}.pem"}),
        "sign_receipts": (
            operations.sign_receipts,
            {"snapshot": filled().snapshot(), "key": folder / "key.pem", "reference": "T-1"},
        ),
        "sign_report": (operations.sign_report, {"report": b"<html>", "key": folder / "key.pem"}),
        "process_inbox": (operations.process_inbox, {"store": filled()}),
        "preview": (operations.preview, {"streams": {}, "at": None}),
        "check_policy": (checks.check_policy, {"policy": Mean(), "batch": 56, "rows": None, "seed": 0}),
        "check_store": (_check_store, {"factory": True, "seed": 0}),
    }
    for kind, make in {"MemoryStore": filled, "SqliteStore": lambda: SqliteStore(folder / "good.db")}.items():
        for method in ("live", "positions", "pseudonym", "release_stream", "remove", "terms", "stream"):
            made[f"{kind}.{method}"] = (_method(make, method), _arguments(method))
    theories: dict[str, object] = {"dim": 2, "error": 0.01, "variance": 1.0, "constant": 4.0, "segmented": True}
    theories |= {"ratio": 1.0, "retention": 50, "rounds": 1_000, "gradient": 1.0, "convexity": 1.0, "steps": 10}
    theories |= {"group": 16, "radius": 0.1, "bound": 2.0, "noise": 1.0, "size": 10, "batch": 5, "batches": 10}
    theories |= {"records": 1_000_000, "window": 20, "bits": 20}
    theories |= {"deviation": 1.0, "smallest_eigenvalue": 1.0, "largest_eigenvalue": 1.0}
    for name in theory.__all__:
        function = getattr(theory, name)
        if inspect.isfunction(function):
            made[name] = (function, {each: theories[each] for each in inspect.signature(function).parameters})
    return made


def _method(make: Callable[[], Any], name: str) -> Callable[..., object]:
    def call(**options: object) -> object:
        made = make()
        try:
            return getattr(made, name)(**options)
        finally:
            made.close()

    return call


def _arguments(method: str) -> dict[str, object]:
    named = {"positions": "source", "pseudonym": "subject"}.get(method, "name")
    return {named: "s"} | ({"about": {"statistic": "mean"}} if method == "stream" else {})


NAMES = list(calls(Path()))
SLOW = {
    "plan",
    "plan_max_age",
    "predict",
    "check_policy",
    "run_outlier",
    "measure_leakage",
    "compare",
    "check_store",
    "plan_table",
}
"""Those that work for seconds where an argument is fine after all."""
OWN = ("data", "rows", "factory", "adversary")
"""Parameters of those that take functions of the user's own."""
VALUES = {
    "CorrelationEstimate",
    "KeyedCounts",
    "KeyedEstimates",
    "StreamTrouble",
    "Taken",
    "SumEstimate",
    "CountEstimate",
    "CovarianceEstimate",
    "RatioEstimate",
    "HistogramEstimate",
    "LinearEstimate",
    "LogisticEstimate",
    "MeanEstimate",
    "BundleEstimate",
    "DistinctEstimate",
    "ExtremesEstimate",
    "QuantilesEstimate",
    "TopKEstimate",
    "MemoryEstimate",
    "MomentsEstimate",
    "ParametersEstimate",
    "register_policy",
    "Estimate",
    "Receipt",
    "Ledger",
    "LedgerEntry",
    "Policy",
    "VestigeError",
    "MemoryStore",
    "State",
    "Terms",
    "FamilyPlace",
    "Place",
    "Store",
    "Reader",
    "StoreSnapshot",
}
"""Classes of what is handed out, which nobody makes, and the roots of what others make."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a,at,who\n1,2024-05-31,x\n2,2024-06-01,y\n")
    with SqliteStore(tmp_path / "good.db") as kept:
        Stream(Mean(), retention=128, store=kept.stream("s")).extend([1.0, 2.0], subjects=["a", "b"])
    operations.generate_key(tmp_path / "key.pem")
    return tmp_path


def raw_exceptions(folder: Path, name: str, bad: dict[str, Callable[[], object]]) -> list[str]:
    """What came out that is not an error of ours, for each parameter and value."""
    function, good = calls(folder)[name]
    function(**good)
    found = []
    for parameter in good:
        for label, make in bad.items():
            if (
                name in SLOW
                and parameter in ("data", "rows", "factory", "adversary")
                and label in ("a type", "a function")
            ):
                continue  # what the user's own function raises is the user's
            try:
                function(**good | {parameter: make()})
            except VestigeError as problem:
                if not str(problem):
                    found.append(f"{parameter}={label}: an error without a sentence")
            except Exception as problem:
                found.append(f"{parameter}={label}: {type(problem).__name__}: {problem}")
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SLOW])
def test_no_raw_exception_comes_out(folder: Path, name: str) -> None:
    assert raw_exceptions(folder, name, BAD) == []


@pytest.mark.parametrize("name", ["measure_leakage", "compare", "plan_table", "check_store"])
def test_no_raw_exception_comes_out_of_those_that_take_long(folder: Path, name: str) -> None:
    few = ("-1", "10**400", "1e300", "nan", "a lone surrogate", "an object", "ragged", "an array of texts")
    assert raw_exceptions(folder, name, {label: BAD[label] for label in few}) == []


@pytest.mark.slow(4)
@pytest.mark.parametrize("name", sorted(SLOW))
def test_no_raw_exception_comes_out_for_any_value(folder: Path, name: str) -> None:
    assert raw_exceptions(folder, name, BAD) == []


@pytest.mark.parametrize("name", ["mean_rounds", "regression_rounds", "simple_mean_retention", "group_density"])
def test_formulas_hold_at_their_limits(folder: Path, name: str) -> None:
    """Whatever the combination, there is a result or a sentence, since no product of such numbers overflows."""
    function, good = calls(folder)[name]
    limits = {float: (1e-50, 1.0, 1e50), int: (1, 10**15), bool: (True,)}
    for chosen in product(*(limits[type(value)] for value in good.values())):
        with suppress(ParameterError):
            assert 0 <= function(**dict(zip(good, chosen, strict=True))) < 10**300  # type: ignore[operator]
    with pytest.raises(ParameterError, match="=1e-51 is out of range; use a number from 1e-50 to 1e50"):
        function(**good | {"noise" if "noise" in good else "variance": 1e-51})


def test_every_public_callable_is_tried() -> None:
    known = {*NAMES, *VALUES}
    results = {
        "audit": {"AuditSeed", "Snapshot", "TableSnapshot", "choose_decisive_batch"},
        "planning": set(),
        "operations": {"send_request", "verify_receipts", "verify_report"},
    }
    results["store"] = {"Key", "KeyTable", "Keyring", "KeyringFile", "KeyringClient", "PostgresStore", "open_keyring"}
    for module in (vestige, audit, planning, theory, subset, checks, store, operations):
        for name in module.__all__:
            public = getattr(module, name)
            drawn = name.startswith("draw_") or name in results.get(module.__name__.rpartition(".")[2], set())
            handed_out = inspect.isclass(public) and module in (audit, planning, subset, operations)
            handed_out = handed_out or (inspect.isclass(public) and issubclass(public, vestige.VestigeError))
            assert name in known or not callable(public) or drawn or handed_out, f"{module.__name__}.{name}"


@pytest.mark.parametrize("limit", ["retention", "notice"])
def test_a_limit_that_no_memory_holds_is_refused(limit: str) -> None:
    with pytest.raises(vestige.errors.ParameterError, match=f"{limit}=1000000000000 is out of range; .* 1,000,000,000"):
        Stream(Mean(), **{limit: 10**12})  # type: ignore[arg-type]
    with pytest.raises(vestige.errors.ParameterError, match="more than the 200,000,000 numbers that a batch may hold"):
        Stream(Mean(), **{limit: 10**9})  # type: ignore[arg-type]


def test_a_value_is_shown_short_and_whatever_it_is() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Shy(), 10**5_000, "x" * 10_000):
        with pytest.raises(vestige.errors.ParameterError, match="half_life=") as error:
            Mean(half_life=value)  # type: ignore[arg-type]
        assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: stream.extend([1.0], times=np.array(0.5)),
        lambda stream: stream.extend([1.0], subjects=np.array("x")),
        lambda stream: stream.extend([1.0], subjects=np.ma.masked),
        lambda stream: stream.forget(rounds=1, receipt_id=["x"]),
        lambda stream: stream.forget(rounds=1, receipt_id={}),
        lambda stream: stream.move_source(["x"], b""),
        lambda _: check_float("patience", np.timedelta64(1, "D"), lambda n: n >= 0.0, "0 or more"),
    ],
)
def test_values_that_are_no_lists_names_or_numbers_are_refused(call: Callable[[Any], object]) -> None:
    with pytest.raises(VestigeError):
        call(streaming())


def test_a_clock_holds_whole_numbers_of_python() -> None:
    """With those of numpy the coins would overflow."""
    made = Clock(t=np.int64(5), due=np.int64(7))  # type: ignore[arg-type]
    assert made == Clock(t=5, due=7)
    assert [type(value) for value in (made.t, made.due)] == [int, int]
    Stream(Mean(), retention=96, clock=made, retained=Records.empty(1)).extend(np.arange(200.0))
    for wrong in (
        {"t": 5.5},
        {"t": 5, "last": 3.0},
        {"t": 5, "last": 3, "gaps": 0.5},
        {"updates": Decimal("nan")},
        {"t": True},
        {"t": 10, "bits": True},
        {"t": np.array(5)},
        {"due": "5"},
        {"t": Broken()},
    ):
        with pytest.raises(ParameterError, match="is not a valid clock"):
            Clock(**wrong)


def test_policies_that_are_made_have_a_hash() -> None:
    """An array without dimensions counts as a whole number, but has no hash."""
    for name, value in {"bits": np.array(3), "columns": np.array(3)}.items():
        with pytest.raises(ParameterError, match=rf"^{name}=array\(3\) is out of range; use a whole number"):
            Memory(**{"bits": 12, "step": keep_state, "conclude": len} | {name: value})  # type: ignore[arg-type]
    assert isinstance(hash(Memory(np.int64(3), keep_state, len)), int)  # type: ignore[arg-type]
