"""Streams from what a store remembers of them: to go on with, or as a copy to ask."""

from __future__ import annotations

from vestige.serialization import from_dict
from vestige.store import State, Store, Terms
from vestige.stream.stream import Stream


def open_stream(store: Store, name: str, *, seed: int | None = None) -> Stream:
    """The stream `name` of a store, with the policy and the limits that it was made with."""
    terms = store.terms(name)
    return Stream(
        from_dict(terms.policy),
        retention=terms.retention,
        notice=terms.notice,
        max_age=terms.max_age,
        seed=seed,
        store=store.stream(name, about=terms.about),
    )


def revived(terms: Terms, state: State) -> Stream:
    """A copy of a stream, as `vestige.store.read_store` gives its parts, that is in no store."""
    return Stream(
        from_dict(terms.policy),
        retention=terms.retention,
        notice=terms.notice,
        max_age=terms.max_age,
        retained=state.retained,
        clock=state.clock,
    )
