"""Conformance checks that anybody's policy can be run through.

A plain online-learning suite passes a model that stores every sample; these do not.
"""

from vestige.checks.policies import check_policy

__all__ = ["check_policy"]
