"""What a stream declares of itself: its terms name the policy, and the policy says whether records are chosen.

Guarantee: a store that says of itself that records are chosen is never called clean; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from vestige.errors import StoreError
from vestige.policies import Encoded, Window
from vestige.serialization import from_dict
from vestige.store import Terms


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the terms of a stream say.

    Attributes:
        policy: the name of the policy.
        chosen: whether it chooses which records are kept by what they hold; None where nobody can say.
        text: the same in a sentence.
    """

    policy: str
    chosen: bool | None
    text: str

    @classmethod
    def read(cls, terms: Terms) -> Declaration:
        """What these terms say."""
        name = str(terms.policy["name"])
        short = name.removeprefix("vestige.")
        try:
            policy = from_dict(terms.policy)
        except StoreError:
            text = f"declares {short}, which is not one of Vestige's policies, so its terms do not say how it chooses"
            return cls(name, None, text)
        if isinstance(policy, Window):
            return cls(name, False, f"declares {short}, which keeps every record that it may and chooses none")
        how = f" through the channel {policy.encoding.name}" if isinstance(policy, Encoded) else ""
        text = (
            f"declares {short}{how}, a statistic that is written in the choice of which records stay: by its own word "
            "its records are chosen, whatever a test finds"
        )
        return cls(name, True, text)
