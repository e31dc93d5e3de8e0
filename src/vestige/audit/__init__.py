"""What a retained set reveals about records that were erased."""

from vestige.audit.bounds import (
    area_under_curve,
    ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.comparison import Compared, Comparison, compare, default_policies
from vestige.audit.detector import DetectedBatch, Detection, Snapshot, detect
from vestige.audit.examples import Appendix, Outlier, appendix, outlier
from vestige.audit.figures import draw_comparison, draw_leakage, draw_outlier
from vestige.audit.leakage import Checkpoint, Leakage, leakage
from vestige.random.keys import AuditSeed

__all__ = [
    "Appendix",
    "AuditSeed",
    "Checkpoint",
    "Compared",
    "Comparison",
    "DetectedBatch",
    "Detection",
    "Leakage",
    "Outlier",
    "Snapshot",
    "appendix",
    "area_under_curve",
    "ceiling",
    "compare",
    "default_policies",
    "detect",
    "draw_comparison",
    "draw_leakage",
    "draw_outlier",
    "epsilon_lower_bound",
    "leakage",
    "mu_lower_bound",
    "outlier",
    "total_variation_lower_bound",
]
