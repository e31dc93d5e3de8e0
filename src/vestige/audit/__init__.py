"""What a retained set reveals about records that were erased."""

from vestige.audit.comparing import Compared, Comparison, compare, usual_policies
from vestige.audit.detecting import DetectedBatch, Detection, Snapshot, detect
from vestige.audit.estimating import (
    area_under_curve,
    ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.examples import Appendix, Outlier, appendix, outlier
from vestige.audit.leaking import Leakage, Look, leakage
from vestige.audit.picturing import draw_comparison, draw_leakage, draw_outlier
from vestige.coins import Rehearsal

__all__ = [
    "Appendix",
    "Compared",
    "Comparison",
    "DetectedBatch",
    "Detection",
    "Leakage",
    "Look",
    "Outlier",
    "Rehearsal",
    "Snapshot",
    "appendix",
    "area_under_curve",
    "ceiling",
    "compare",
    "detect",
    "draw_comparison",
    "draw_leakage",
    "draw_outlier",
    "epsilon_lower_bound",
    "leakage",
    "mu_lower_bound",
    "outlier",
    "total_variation_lower_bound",
    "usual_policies",
]
