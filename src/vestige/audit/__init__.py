"""What a retained set reveals about records that were erased."""

from vestige.audit.estimating import (
    area_under_curve,
    ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.leaking import Leakage, Look, leakage
from vestige.coins import Rehearsal

__all__ = [
    "Leakage",
    "Look",
    "Rehearsal",
    "area_under_curve",
    "ceiling",
    "epsilon_lower_bound",
    "leakage",
    "mu_lower_bound",
    "total_variation_lower_bound",
]
