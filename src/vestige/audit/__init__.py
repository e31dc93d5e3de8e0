"""What a retained set reveals about records that were erased."""

from vestige.audit.estimating import (
    area_under_curve,
    ceiling,
    epsilon_lower_bound,
    epsilon_of_mu,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.leaking import Leakage, Look, leakage

__all__ = [
    "Leakage",
    "Look",
    "area_under_curve",
    "ceiling",
    "epsilon_lower_bound",
    "epsilon_of_mu",
    "leakage",
    "mu_lower_bound",
    "total_variation_lower_bound",
]
