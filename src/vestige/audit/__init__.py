"""What retained records reveal about records that were erased.

The concepts are in docs/audit.md.
Guarantee: every bound holds with its stated confidence; held by tests/audit/test_validity.py.
"""

from vestige.audit.array_game import ArrayGame, ArrayLeakage
from vestige.audit.bounds import (
    area_under_curve,
    epsilon_ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.checkpoint import Checkpoint
from vestige.audit.comparison import Comparison, ComparisonRow, compare, default_policies
from vestige.audit.declared import DeclaredRecords
from vestige.audit.detector import DetectedBatch, Detection, Snapshot, detect
from vestige.audit.examples import AppendixD, OutlierEffect, run_appendix_d, run_outlier
from vestige.audit.figures import draw_comparison, draw_leakage, draw_outlier, draw_trade_off
from vestige.audit.leakage import Leakage, measure_leakage
from vestige.audit.strategy import Turn, choose_decisive_batch
from vestige.audit.table import audit_table
from vestige.audit.table_data import TableSnapshot
from vestige.audit.table_figures import draw_table
from vestige.audit.table_power import PowerRow, TablePlan, plan_table
from vestige.audit.table_result import DeclaredFacts, SnapshotFacts, TableAudit, TableTest
from vestige.audit.trade_off import (
    Interval,
    TradeOff,
    approximate_trade_off,
    gaussian_trade_off,
    measure_trade_off,
)
from vestige.random.keys import AuditSeed

__all__ = [
    "AppendixD",
    "ArrayGame",
    "ArrayLeakage",
    "AuditSeed",
    "Checkpoint",
    "Comparison",
    "ComparisonRow",
    "DeclaredFacts",
    "DeclaredRecords",
    "DetectedBatch",
    "Detection",
    "Interval",
    "Leakage",
    "OutlierEffect",
    "PowerRow",
    "Snapshot",
    "SnapshotFacts",
    "TableAudit",
    "TablePlan",
    "TableSnapshot",
    "TableTest",
    "TradeOff",
    "Turn",
    "approximate_trade_off",
    "area_under_curve",
    "audit_table",
    "choose_decisive_batch",
    "compare",
    "default_policies",
    "detect",
    "draw_comparison",
    "draw_leakage",
    "draw_outlier",
    "draw_table",
    "draw_trade_off",
    "epsilon_ceiling",
    "epsilon_lower_bound",
    "gaussian_trade_off",
    "measure_leakage",
    "measure_trade_off",
    "mu_lower_bound",
    "plan_table",
    "run_appendix_d",
    "run_outlier",
    "total_variation_lower_bound",
]
