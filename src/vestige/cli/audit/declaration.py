"""What a stream declares about itself: its terms name the policy, and the policy says whether records are chosen.

Guarantee: a store that declares that records are chosen is never reported as clean; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from vestige.errors import StoreError
from vestige.policies import Encoded, Window
from vestige.serialization import from_dict
from vestige.store import Terms


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the terms of a stream declare.

    Attributes:
        policy: name of the policy.
        chosen: whether the policy chooses which records to keep by their values; None if unknown.
        text: the same as part of a sentence.
    """

    policy: str
    chosen: bool | None
    text: str

    @classmethod
    def read(cls, terms: Terms) -> Declaration:
        """Read what terms declare.

        Args:
            terms: terms of a stream.

        Returns:
            The declaration.
        """
        name = str(terms.policy["name"])
        short = name.removeprefix("vestige.")
        try:
            policy = from_dict(terms.policy)
        except StoreError:
            text = f"declares {short}, which is not one of Vestige's policies, so its terms do not say how it chooses"
            return cls(name, None, text)
        if isinstance(policy, Window):
            return cls(name, False, f"declares {short}, a sliding window, which keeps every record that it may")
        how = f" through the channel {policy.encoding.name}" if isinstance(policy, Encoded) else ""
        text = (
            f"declares {short}{how}, which stores a statistic in the choice of which records are kept: by its own "
            "terms its records are chosen, whatever a test finds"
        )
        return cls(name, True, text)
