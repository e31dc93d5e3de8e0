"""Conformance checks for any policy or store.

An ordinary test suite for online learning passes a model that stores every sample; these checks do not.
Guarantee: each planted fault is found; held by tests/test_checks.py and tests/store/test_check_store.py.
"""

from vestige.checks.policies import check_policy
from vestige.checks.stores import check_store

__all__ = ["check_policy", "check_store"]
