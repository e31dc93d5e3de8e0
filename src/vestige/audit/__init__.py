"""What a retained set reveals about records that were erased."""

from vestige.audit.detecting import DetectedBatch, Detection, Snapshot, detect
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
    "DetectedBatch",
    "Detection",
    "Leakage",
    "Look",
    "Rehearsal",
    "Snapshot",
    "area_under_curve",
    "ceiling",
    "detect",
    "epsilon_lower_bound",
    "leakage",
    "mu_lower_bound",
    "total_variation_lower_bound",
]
