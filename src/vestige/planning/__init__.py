"""How much retention is needed for an error, foretold before one starts, and honest about what cannot be told.

`plan` says what each policy needs, `predict` what error one will have. docs/plan.md derives and measures both.
Guarantee: within 20% of what is measured, or it is said why not; held by tests/planning/test_honesty.py.
"""

from vestige.planning.knowing import Known
from vestige.planning.needing import Plan, Row, plan
from vestige.planning.predicting import Prediction, predict

__all__ = ["Known", "Plan", "Prediction", "Row", "plan", "predict"]
