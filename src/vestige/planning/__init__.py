"""How much retention is needed for an error, foretold before one starts, and honest about what cannot be told.

`plan` says what each policy needs, `predict` what error one will have. docs/plan.md derives and measures both.
Guarantee: within 20% of what is measured, or it is said why not; held by tests/planning/test_honesty.py.
"""

from vestige.planning.figures import draw_plan
from vestige.planning.plan import Plan, Row, plan
from vestige.planning.prediction import Prediction, predict

__all__ = ["Plan", "Prediction", "Row", "draw_plan", "plan", "predict"]
