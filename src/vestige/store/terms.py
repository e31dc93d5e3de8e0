"""Terms: what must stay the same for the whole life of a stream, as plain data.

Guarantee: a stream is never continued under other terms, and the error shows both; held by tests/store/test_sqlite.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from vestige.errors import StoreError
from vestige.times import TICK, format_duration

DEFAULTS = "defaults"
"""Name in `Terms.about` of what may change."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What must stay the same for the whole life of a stream.

    Attributes:
        policy: the policy as plain data, see `vestige.serialization`.
        columns: number of values per record.
        capacity: the largest number of rounds that the held records span.
        retention: the limit in rounds, if there is one.
        notice: the limit in rounds for removal requests, if there is one.
        max_age: the limit in time, if there is one.
        about: anything else that must stay the same, such as the names of the columns; and under the name "defaults"
            what may change, such as how late rows may be, for runs that do not say it.
    """

    policy: Mapping[str, object]
    columns: int
    capacity: int
    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None
    about: Mapping[str, object] = field(default_factory=dict)

    @property
    def fixed(self) -> Mapping[str, object]:
        """What is in `about` and must stay the same."""
        return drop_defaults(self.about)

    @property
    def fixed_text(self) -> str:
        """The terms as JSON without what may change; equal for streams that continue each other."""
        return replace(self, about=self.fixed).text

    @property
    def text(self) -> str:
        """The terms as JSON; equal terms give equal texts."""
        age = None if self.max_age is None else self.max_age // TICK
        facts = {name: getattr(self, name) for name in self.__slots__} | {"max_age": age}
        return json.dumps({k: dict(v) if isinstance(v, Mapping) else v for k, v in facts.items()}, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Terms:
        """Read terms from JSON.

        Args:
            text: the property `text` of terms.

        Returns:
            The terms.

        Raises:
            ValueError: the text is not JSON.
        """
        facts = json.loads(text)
        age = facts.pop("max_age")
        return cls(**facts, max_age=None if age is None else timedelta(microseconds=age))

    def check(self, name: str, now: Terms) -> None:
        """Check that a stream is opened with the terms that it was created with.

        Args:
            name: the name of the stream.
            now: the terms that it is opened with.

        Raises:
            StoreError: they differ; the message shows both.
        """
        texts = [terms.fixed_text for terms in (self, now)]
        if texts[0] == texts[1]:
            return
        then, given = map(json.loads, texts)
        then["about"], given["about"] = _find_differences(then["about"], given["about"])
        if "statistic" not in then["about"] and _is_bundle(then["policy"]) and _is_bundle(given["policy"]):
            for about in (then["about"], given["about"]):
                about.pop("columns", None)  # the metrics say which they are
        differing = [key for key in then if then[key] != given[key] and key not in ("columns", "capacity")]
        shown = "; ".join(_explain_difference(key, then[key], given[key]) for key in differing)
        raise StoreError(
            f"stream {name!r} was created with other terms: {shown}; open it with the terms that it was created with, "
            "or give the new stream another name (--stream) or another store"
        )

    def explain_limits(self, now: Terms) -> str:
        """Say how the limits of other terms differ, if nothing else does.

        Args:
            now: the other terms.

        Returns:
            A clause; empty if the limits are the same, or something else differs.

        Example:
            >>> Terms({}, 1, 96, retention=96).explain_limits(Terms({}, 1, 97, retention=97))
            'retention=96, now retention=97'
        """
        if (self.policy, self.columns, self.fixed) != (now.policy, now.columns, now.fixed):
            return ""
        then, given = json.loads(self.text), json.loads(now.text)
        differing = [key for key in ("retention", "notice", "max_age") if then[key] != given[key]]
        return "; ".join(_explain_difference(key, then[key], given[key]) for key in differing)


def drop_defaults(about: Mapping[str, object]) -> Mapping[str, object]:
    """Return what must stay the same.

    Args:
        about: see `Terms.about`.

    Returns:
        The same without defaults.

    Example:
        >>> drop_defaults({"by": None, "defaults": {"lateness": 60.0}})
        {'by': None}
    """
    return {name: value for name, value in about.items() if name != DEFAULTS}


def _find_differences(one: dict[str, object], other: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The entries of both that differ; None where one of them lacks an entry."""
    keys = [key for key in one | other if one.get(key) != other.get(key) or (key in one) != (key in other)]
    return {key: one.get(key) for key in keys}, {key: other.get(key) for key in keys}


def _explain_difference(key: str, then: Any, now: Any) -> str:
    """Say how a term was and how it is now."""
    if key == "policy" and _is_bundle(then) and _is_bundle(now) and then["name"] == now["name"]:
        return _explain_policies(then["parameters"], now["parameters"])
    return f"{_format_term(key, then)}, now {_format_term(key, now)}"


def _explain_policies(then: dict[str, Any], now: dict[str, Any]) -> str:
    """Say which parameters of policies with metrics differ, and which metrics do."""
    parts = []
    before, after = _find_differences(then, now)
    for name, one in before.items():
        other = after[name]
        if name == "metrics":
            parts.append(_explain_metrics(one, other))
        elif name == "policy":
            parts.append(_explain_difference(name, one, other))
        else:
            parts.append(f"{name}={_format_value(one)}, now {name}={_format_value(other)}")
    return "; ".join(parts)


def _explain_metrics(then: Any, now: Any) -> str:
    """Say which metrics are there now and were not, and the other way round.

    >>> mean, total = ({"name": name, "parameters": {"dim": 1}} for name in ("vestige.Mean", "vestige.Sum"))
    >>> _explain_metrics([[["spent"], [mean]]], [[["spent"], [mean, total]], [["rating"], [mean]]])
    'spent:sum and rating:mean are new'
    """
    one, other = _name_metrics(then), _name_metrics(now)
    found = {
        "new": [name for name in other if name not in one],
        "missing now": [name for name in one if name not in other],
        "different": [name for name in one if name in other and one[name] != other[name]],
    }
    clauses = [f"{_join(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in found.items() if names]
    return ", ".join(clauses) or "the metrics are in another order"


def _name_metrics(metrics: Any) -> dict[str, Mapping[str, object]]:
    """The plain data of each metric of a bundle, by its name such as `amount:mean`."""
    from vestige.policies import POLICIES, NamedPolicy  # noqa: PLC0415  # only an error needs them
    from vestige.serialization import from_dict  # noqa: PLC0415

    named = {}
    for columns, policies in metrics:
        for policy in policies:
            kept = from_dict(policy) if policy["name"] in POLICIES else None
            name = kept.metric_name if isinstance(kept, NamedPolicy) else ""
            named[f"{','.join(columns)}:{name or policy['name']}"] = policy
    return named


def _is_bundle(policy: Any) -> bool:
    """Whether a policy in plain data is one of several metrics, or such a one with noise."""
    if not isinstance(policy, Mapping):
        return False
    return policy["name"] == "vestige.Bundle" or _is_bundle(policy["parameters"].get("policy"))


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _format_term(key: str, value: object) -> str:
    if key == "policy" and isinstance(value, Mapping) and value["name"] == "vestige.Bundle":
        return f"metrics {_join(list(_name_metrics(value['parameters']['metrics'])))}"
    if key == "policy" and isinstance(value, Mapping):
        inner = ", ".join(f"{k}={_format_term(k, v)}" for k, v in dict(value["parameters"]).items())
        return f"{value['name']}({inner})"
    if key == "max_age" and isinstance(value, int):
        return f"max_age={format_duration(timedelta(microseconds=value))}"
    if key == "about" and isinstance(value, Mapping):
        return ", ".join(f"{k}={_format_value(v)}" for k, v in value.items())
    return _format_value(value) if key not in ("retention", "notice", "max_age") else f"{key}={_format_value(value)}"


def _format_value(value: object) -> str:
    """A value for people.

    >>> _format_value(None), _format_value(["a", "b"]), _format_value([])
    ('none', '"a" and "b"', 'none')
    """
    if isinstance(value, list):
        return " and ".join(map(_format_value, value)) or "none"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
