"""The log: what happened by the public clock, and nothing that depends on values, subjects or names."""

from __future__ import annotations

import io
import logging
from datetime import datetime, timedelta

import numpy as np
import pytest

from vestige import Mean, MemoryStore, Stream
from vestige.stream.log import LOG

START = datetime(2024, 1, 1)
CANARIES = ("8675309.25", "8675309", "canary", "shop-of-ada")


def live(values: np.ndarray, subject: str, name: str) -> None:
    """A stream with whole batches, one that is closed early, a request, and a start over."""
    store = MemoryStore()
    stream = Stream(Mean(channel="bits"), retention=96, max_age=timedelta(days=20), seed=0, store=store.stream(name))
    times = [START + timedelta(hours=3 * i) for i in range(len(values))]
    stream.extend(values, times=times, subjects=[subject] * len(values))
    for day in (2, 4, 6, 9, 12):
        stream.sweep(times[-1] + timedelta(days=day))
    stream.forget(rounds=range(1, stream.t + 1), now=True)
    stream.extend(values[:3], times=[times[-1] + timedelta(days=12)] * 3)
    stream.sweep(times[-1] + timedelta(days=90))


def test_the_log_knows_neither_values_nor_subjects_nor_names(caplog: pytest.LogCaptureFixture) -> None:
    logs = []
    rng = np.random.default_rng(0)
    for values, subject, name in (
        (rng.normal(size=232), "someone", "main"),
        (np.full(232, 8675309.25), "canary", "shop-of-ada"),
    ):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "vestige"):
            live(values, subject, name)
        logs.append([(record.levelname, record.getMessage()) for record in caplog.records])
    assert logs[0] == logs[1]
    text = repr([vars(record) for record in caplog.records])
    assert not any(canary in text for canary in CANARIES)
    levels = {level for level, _ in logs[0]}
    assert levels == {"DEBUG", "INFO", "WARNING"}
    assert ("DEBUG", "Mean updated at round 48") in logs[0]
    assert any("closed a batch early at round 232, with 40 of 48 rounds" in text for _, text in logs[0])
    assert any("Mean started over and counts from round 233" in text for _, text in logs[0])


def test_it_is_silent_until_a_program_configures_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any handler, warnings would go to standard error."""
    heard = io.StringIO()
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(heard))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    live(np.arange(232.0), "someone", "main")
    assert not heard.getvalue()
    LOG.warning("of no stream")
    assert heard.getvalue() == "of no stream\n"


def test_one_handler_of_the_package_hears_all_streams() -> None:
    heard = io.StringIO()
    handler, log = logging.StreamHandler(heard), logging.getLogger("vestige")
    log.addHandler(handler)
    try:
        stream = Stream(Mean(), retention=96, seed=0)
        stream.extend(np.arange(200.0))
        stream.forget(rounds=range(1, 201), now=True)
    finally:
        log.removeHandler(handler)
    assert heard.getvalue() == "Mean started over and counts from round 193\n"
