"""A feed of the demo that is nothing but streams in memory, without a service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from vestige import Mean, NoAnswerError, Private, Stream, Window


class PlainFeed:
    """Streams without keys, by name; what has keys is left out."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream[Any]] = {}
        self.definitions: dict[str, Mapping[str, Any]] = {}

    def define(self, definition: Mapping[str, Any]) -> None:
        self.definitions[definition["name"]] = definition
        policy: Any = Mean(channel=definition.get("channel", "auto"), spread=definition.get("standard_error", False))
        seed: int | None = 0
        if definition.get("window"):
            policy = Window(Mean())
        if "epsilon" in definition:
            bound = float(definition["bounds"][0].partition("=")[2])
            policy, seed = Private(bound=bound, epsilon=definition["epsilon"], delta=definition["delta"]), None
        if "by" not in definition:
            self.streams[definition["name"]] = Stream(policy, retention=definition["retention"], seed=seed)

    def take(self, names: Collection[str], rows: Any) -> None:
        subjects = rows["tailnum"].to_pylist()
        for name in self.streams.keys() & set(names):
            self.streams[name].extend(rows["dep_delay"].to_numpy(), subjects=subjects)

    def estimate(self, name: str) -> Mapping[str, Any] | None:
        stream = self.streams[name]
        if stream.t == 0:
            return None
        try:
            made = stream.estimate()
        except NoAnswerError:
            held = len(stream.retained)
            nothing: dict[str, Any] = {"count": 0, "since": 1, "t": stream.t, "as_of": None, "held": held, "notes": []}
            return {"key": None, "answers": [], **nothing}
        answers = [{"standard_error": None, **number} for number in made.list_numbers()]
        counts = {"count": made.counted, "since": made.since, "t": made.t, "as_of": made.as_of}
        shared = {**counts, "held": made.held, "notes": list(made.notes)}
        return {"key": None, "answers": answers, **shared}

    def list_rounds(self, name: str) -> Collection[int]:
        rounds: list[int] = self.streams[name].retained.rounds.tolist()
        return rounds
