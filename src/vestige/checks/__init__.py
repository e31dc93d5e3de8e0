"""Conformance checks that anybody's policy or store can be run through.

A plain online-learning suite passes a model that stores every sample; these do not.
"""

from vestige.checks.policies import check_policy
from vestige.checks.stores import check_store

__all__ = ["check_policy", "check_store"]
