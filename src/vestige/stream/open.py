"""Streams from what a store remembers of them: to continue, or as a copy to ask.

Guarantee: a stream that is opened again continues as if it had never been closed; held by tests/store/test_machine.py.
"""

from __future__ import annotations

from vestige.serialization import from_dict
from vestige.store import State, Store, Terms
from vestige.stream.frames import find_names
from vestige.stream.stream import Stream


def open_stream(store: Store, name: str, *, seed: int | None = None) -> Stream:
    """Open a stream of a store, with the policy and the limits that it was made with.

    Args:
        store: an open store.
        name: name of the stream.
        seed: makes the run reproducible; default: coins from the operating system.

    Returns:
        The stream, which continues from the store.

    Raises:
        StoreError: there is no such stream, or its policy cannot be made from its name.

    Example:
        >>> from vestige import Mean, MemoryStore
        >>> store = MemoryStore()
        >>> stream = Stream(Mean(), retention=96, store=store.stream("delays"))
        >>> stream.extend([1.0, 2.0])
        2
        >>> stream.flush()
        >>> open_stream(store, "delays").estimate().value
        1.5
    """
    terms = store.terms(name)
    return Stream(
        from_dict(terms.policy),
        retention=terms.retention,
        notice=terms.notice,
        max_age=terms.max_age,
        seed=seed,
        store=store.stream(name, about=terms.about),
    )


def copy_stream(terms: Terms, state: State) -> Stream:
    """Make a stream that is in no store from a copy of its terms and state.

    Args:
        terms: its terms in a `vestige.store.StoreSnapshot`.
        state: its state there.

    Returns:
        A stream with the same records and the same clock.
    """
    stream = Stream(
        from_dict(terms.policy),
        retention=terms.retention,
        notice=terms.notice,
        max_age=terms.max_age,
        retained=state.retained,
        clock=state.clock,
    )
    stream._column_names = find_names(stream.policy, terms.about)
    return stream
