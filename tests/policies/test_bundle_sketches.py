"""Sketches in a bundle are those of the records that have their columns, bit for bit; the averages beside them hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import (
    Bundle,
    Clock,
    ExactHistogram,
    Extremes,
    Mean,
    ParameterError,
    Quantiles,
    Stream,
    Sum,
    TopK,
    open_store,
)
from vestige.channels.states import find_state_slots
from vestige.checks import check_policy
from vestige.errors import NoRecordsError
from vestige.planning.data_model import DataModel
from vestige.planning.encoding_error import find_encoding_variance
from vestige.policies.metrics import parse_metrics
from vestige.policies.stateful import Stateful
from vestige.types import Floats

SKETCHES: dict[str, Stateful] = {
    "amount:p50": Quantiles([0.5], size=10),
    "amount:p95": Quantiles([0.95], size=10),
    "rating:extremes": Extremes(),
    "rating:top": TopK(2, counters=4),
    "rating:exact_histogram": ExactHistogram((1.0, 4.0)),
}
BUNDLE = Bundle(
    {
        "amount": [Mean(), Sum(), SKETCHES["amount:p50"], SKETCHES["amount:p95"]],
        "rating": [SKETCHES[f"rating:{name}"] for name in ("extremes", "top", "exact_histogram")],
    }
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def draw(n: int, missing: float = 0.3, seed: int = 0) -> Floats:
    """Amounts that drift, and ratings that are missing in a share of the rows."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack((rng.gamma(2.0, 3.0, n) + np.linspace(0.0, 5.0, n), np.floor(6.0 * rng.random(n))))
    rows[rng.random(n) < missing, 1] = np.nan
    return rows


def run_alone(policy: Stateful, values: Floats) -> bytes:
    """The state of a sketch that sees all values at once."""
    return policy.move(policy.first_state, values[~np.isnan(values)].reshape(-1, 1))


def check(stream: Stream, rows: Floats) -> None:
    """Compare each sketch with one that sees all values, and the averages with numpy's."""
    estimate: Any = stream.estimate()
    since = rows[estimate.since - 1 :]
    for name, policy in SKETCHES.items():
        values = since[:, 0 if name.startswith("amount") else 1]
        known = int((~np.isnan(values)).sum())
        expected, found = policy.make_estimate(run_alone(policy, values), known), estimate[name]
        assert found.counted == known, name
        assert np.array_equal(found.value, expected.value), name
        for bound in ("lower", "upper", "counts"):
            if hasattr(expected, bound):
                assert np.array_equal(getattr(found, bound), getattr(expected, bound)), name
    error = since[:, 0].std() / np.sqrt(len(since))
    assert abs(estimate["amount:mean"].value - since[:, 0].mean()) <= 0.01 * error
    assert estimate["amount:sum"].value == pytest.approx(since[:, 0].sum(), abs=0.01 * error * len(since))


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.999])
def test_each_sketch_is_that_of_the_records_that_have_its_columns(missing: float) -> None:
    rows, stream = draw(24_000, missing), Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(rows[:3])
    assert stream.estimate().counted == 3
    stream.extend(rows[3:15_000])
    for start in range(15_000, len(rows), 999):
        stream.extend(rows[start : start + 999])
    assert stream.estimate().since == 1
    check(stream, rows)


def test_a_metric_that_no_record_has_is_not_answered() -> None:
    stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(draw(9_000, missing=1.0))
    estimate = stream.estimate()
    assert estimate.answers["rating:top"] is None
    assert estimate["amount:p50"].counted == 9_000


def test_requests_within_the_reserve_lose_nothing() -> None:
    rng, rows = np.random.default_rng(1), draw(30_000)
    stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    subjects = rng.integers(0, 1_000, len(rows)).astype(str)
    for start in range(0, len(rows), 600):
        stream.extend(rows[start : start + 600], subjects=subjects[start : start + 600])
        stream.forget(subject=subjects[start])
    assert stream.estimate().since == 1
    check(stream, rows)


def test_a_request_that_is_met_immediately_loses_nothing_where_enough_records_wait() -> None:
    rows, stream = draw(6_000), Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(rows, subjects=[str(i) for i in range(len(rows))])
    kept = str(stream.retained.rounds[0] - 1)
    stream.forget(subject=kept, now=True)
    assert (stream.estimate().since, stream.clock.last) == (1, 6_000)  # it was written again
    check(stream, rows)


def test_a_batch_that_closes_early_for_its_deadline_holds_all_that_fits() -> None:
    stream = Stream(BUNDLE, max_age=timedelta(days=30), seed=0)
    rows = draw(20_000)
    times = [START + timedelta(minutes=6.5 * i) for i in range(len(rows))]  # 3,323 in half of the age: no full batch
    assert BUNDLE.min_early_batch < 3_323 < stream.batch
    for start in range(0, len(rows), 500):
        stream.extend(rows[start : start + 500], times=times[start : start + 500])
    assert stream.estimate().since == 1
    check(stream, rows)


def check_apart(stream: Stream, rows: Floats) -> int:
    """Compare sketches that have started over alone with ones that see all values since; the round since then."""
    estimate: Any = stream.estimate()
    since = estimate["amount:p50"].since
    assert estimate.since == estimate["amount:mean"].since == 1 < since
    assert estimate["amount:mean"].counted == len(rows)
    for name, policy in SKETCHES.items():
        values = rows[since - 1 :, 0 if name.startswith("amount") else 1]
        expected = policy.make_estimate(run_alone(policy, values), int((~np.isnan(values)).sum()))
        assert np.array_equal(estimate[name].value, expected.value), name
        assert any(f"Counts from round {since} on: a batch had too few" in note for note in estimate[name].notes)
    error = rows[:, 0].std() / np.sqrt(len(rows))
    assert abs(estimate["amount:mean"].value - rows[:, 0].mean()) <= 0.01 * error
    assert any("amount:p50" in note and f"Counts from round {since} on" in note for note in estimate.notes)
    assert estimate.missed
    return int(since)


def test_sketches_start_over_alone_where_too_few_records_can_be_kept() -> None:
    rows, stream = draw(12_000), Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(rows[:5_000], subjects=["a", "b", "a", "b", "a"] * 1_000)
    assert stream.clock.pending > BUNDLE.min_batch // 3
    stream.forget(subject="a")  # of more than half of the records that wait
    stream.extend(rows[5_000:])
    assert check_apart(stream, rows) == 2 * stream.batch + 1


def test_sketches_start_over_alone_where_few_records_arrive_in_time() -> None:
    stream = Stream(BUNDLE, max_age=timedelta(days=30), seed=0)
    rows = draw(4_000)
    times = [START + timedelta(minutes=50 * i) for i in range(len(rows))]  # 864 in all of the age
    assert BUNDLE.min_last_batch < 864 < BUNDLE.min_early_batch
    for start in range(0, len(rows), 500):
        stream.extend(rows[start : start + 500], times=times[start : start + 500])
    check_apart(stream, rows)


def test_a_store_brings_everything_back(tmp_path: Path) -> None:
    rows = draw(9_000)
    with open_store(tmp_path / "visits.db") as store:
        stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0, store=store.stream("main"))
        stream.extend(rows[:8_000])
    with open_store(tmp_path / "visits.db") as store:
        stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0, store=store.stream("main"))
        stream.extend(rows[8_000:])
        check(stream, rows)


def test_an_answer_whose_records_are_gone_is_an_error() -> None:
    stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(draw(9_000))
    retained = stream.retained
    with pytest.raises(NoRecordsError, match="are missing, so what it encoded is lost"):
        BUNDLE.answer(stream.clock, retained.where(retained.rounds > stream.clock.last))


@pytest.mark.slow
def test_the_policy_keeps_the_rules() -> None:
    check_policy(Bundle({"a": [Mean(), Extremes()], "b": [ExactHistogram((0.0,), bits=16)]}))


def test_quantiles_of_a_column_share_one_summary() -> None:
    bundle = parse_metrics(["amount:p50,p95,quantiles[p5,size=100]", "rating:p50"])
    assert bundle.sketches is not None
    assert [len(sketches) for _, sketches in bundle.sketches.groups] == [1, 1]
    assert [p.metric_name for _, policies in bundle.groups for p in policies] == ["p50", "p95", "p5", "p50"]
    assert parse_metrics(["a:p99.9"]) == Bundle({"a": Quantiles([0.999])})


def test_what_sketches_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="sketches of 1,920,192 bits in all, above 1,000,000; use fewer"):
        Bundle({name: Quantiles(size=4_000) for name in "abc"})
    with pytest.raises(ParameterError, match="takes no half_life"):
        Bundle({"a": Extremes()}, half_life=100.0)
    with pytest.raises(ParameterError, match="p101 has one that is not a number above 0"):
        parse_metrics(["a:p101"])
    with pytest.raises(ParameterError, match="size=few is not one whole number"):
        parse_metrics(["a:p50[size=few]"])


def test_a_plan_counts_the_slots_of_the_averages_alone() -> None:
    alone, beside = Bundle({"amount": Mean()}), Bundle({"amount": [Mean(), Extremes()]})
    assert beside.sketches is not None
    variances = [
        find_encoding_variance(DataModel(policy), policy, batch, 100, 0.0).expected
        for policy, batch in ((alone, 80), (beside, 80 + beside.sketches.slots))
    ]
    assert np.array_equal(variances[0], variances[1])
    rooms = [
        policy._find_rounding(Clock(batch, first=1, last=batch))
        for policy, batch in ((alone, 80), (beside, 80 + beside.sketches.slots))
    ]
    assert rooms[0] == rooms[1]


def test_the_largest_reserve_is_kept_for_all_sketches() -> None:
    sketches = Bundle({"a": Extremes(reserve=0.05), "b": Quantiles([0.5], reserve=0.4)}).sketches
    assert sketches is not None
    assert sketches.slots == find_state_slots(sketches.bits, 0.4) > find_state_slots(sketches.bits, 0.05)
