"""Numbers for Prometheus: requests, rows, the queue, what is held and erased, and when the store was last swept.

Guarantee: no label or number names a stream, a key or a subject, or depends on the values of records; held by
tests/service/test_metrics.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from vestige.errors import MissingExtraError
from vestige.service.engine import Engine, count_records
from vestige.service.events import Events
from vestige.service.feed import Feed
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.service.sweeper import Sweeper
from vestige.times import wall_clock

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
    from starlette.types import Scope
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = ("GET", "POST", "DELETE", "HEAD")


class Metrics:
    """What a service counts, in a registry of its own.

    Args:
        engine: the engine.
        events: those who watch.
        sweeper: what is due while nothing arrives; None if nobody sweeps.
        feeds: queues that are read into streams.
    """

    def __init__(
        self, engine: Engine, events: Events, sweeper: Sweeper | None = None, feeds: Sequence[Feed] = ()
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "vestige_requests", "Requests by route and status.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "vestige_request_seconds",
            "Time to answer, by route.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._rows = Counter(
            "vestige_rows", "Rows of requests, by what became of them.", ("outcome",), registry=self._registry
        )
        for outcome in ("taken", "late", "skipped", "failed", "replayed"):
            self._rows.labels(outcome)
        self._registry.register(_State(engine, events, sweeper, feeds))

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            scope: the scope of the request; of its path, only the pattern of its route is used.
            status: the status of its answer.
            seconds: how long it took.
        """
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_rows(self, counts: Counts, *, is_replayed: bool) -> None:
        """Count the rows of a request that was answered.

        Args:
            counts: what became of them.
            is_replayed: whether that is of an earlier request.
        """
        if is_replayed:
            self._rows.labels("replayed").inc(counts.taken)
            return
        for outcome, number in asdict(counts).items():
            self._rows.labels(outcome).inc(number)

    def write(self) -> bytes:
        """Write all numbers.

        Returns:
            Text in the form of Prometheus.
        """
        return generate_latest(self._registry)


class _State(Collector):
    """Numbers that are read when they are asked for."""

    def __init__(self, engine: Engine, events: Events, sweeper: Sweeper | None, feeds: Sequence[Feed]) -> None:
        self._engine, self._events, self._sweeper, self._feeds = engine, events, sweeper, feeds

    def describe(self) -> list[Metric]:
        """Name no numbers before they are asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the numbers."""
        engine = self._engine
        is_up = engine.status in ("ok", "waiting")
        yield GaugeMetricFamily("vestige_up", "Whether the store can be written.", float(is_up))
        unavailable = engine.catalog.unavailable
        yield GaugeMetricFamily("vestige_streams_unavailable", "Definitions that are open elsewhere.", unavailable)
        yield GaugeMetricFamily("vestige_queue_length", "Requests that wait for the writer.", engine.waiting)
        yield GaugeMetricFamily("vestige_listeners", "Those who watch events.", self._events.listeners)
        yield from self._collect_feeds()
        try:
            with engine.read() as catalog:
                counts = [count_records(served) for served in catalog.served.values()]
                requests = [receipt for receipt in engine.store.read_ledger().receipts if receipt.erased is None]
        except RefusalError:
            return
        arrived, held = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        now = wall_clock()
        overdue = sum(receipt.due is not None and receipt.due < now for receipt in requests)
        yield GaugeMetricFamily("vestige_streams", "Definitions of streams.", len(counts))
        yield GaugeMetricFamily(
            "vestige_records_arrived", "Records that have arrived in the streams there are.", arrived
        )
        yield GaugeMetricFamily("vestige_records_held", "Records that are held.", held)
        yield GaugeMetricFamily(
            "vestige_records_gone", "Records of the streams there are that are not held any more.", arrived - held
        )
        yield GaugeMetricFamily("vestige_removals_open", "Removal requests that are not met yet.", len(requests))
        yield GaugeMetricFamily("vestige_removals_overdue", "Removal requests that should have been met.", overdue)
        if self._sweeper is not None:
            yield from self._collect_sweeps(self._sweeper)

    def _collect_feeds(self) -> Iterator[Metric]:
        feeds = self._feeds
        failing, taken = sum(feed.is_failing for feed in feeds), sum(feed.taken for feed in feeds)
        yield GaugeMetricFamily("vestige_feeds", "Queues that are read.", len(feeds))
        yield GaugeMetricFamily("vestige_feeds_failing", "Queues that cannot be read, or whose rows wait.", failing)
        yield CounterMetricFamily("vestige_feed_rows", "Rows of queues that were taken.", value=taken)

    def _collect_sweeps(self, sweeper: Sweeper) -> Iterator[Metric]:
        yield CounterMetricFamily("vestige_sweeps", "Sweeps since the service was started.", value=sweeper.sweeps)
        yield CounterMetricFamily("vestige_swept_records", "Records that sweeps have erased.", value=sweeper.erased)
        yield GaugeMetricFamily(
            "vestige_sweep_troubles", "Streams in trouble at the last sweep, which may be overdue.", sweeper.troubles
        )
        yield GaugeMetricFamily(
            "vestige_last_sweep_timestamp_seconds", "When the last sweep ended, since 1970.", sweeper.swept_at
        )
