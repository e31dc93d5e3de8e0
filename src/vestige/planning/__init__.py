"""Predict the retention required for a target error, and the error of a policy at a given retention.

`plan` says what retention each policy requires, `predict` what error one policy will have, and `plan_max_age` what a
limit in time alone comes to. docs/plan.md derives and measures them.
Guarantee: the measured error is within 20% of the prediction, or a note says why it may not be; held by
tests/planning/test_honesty.py.
"""

from vestige.planning.figures import draw_plan
from vestige.planning.max_age import AgePlan, AgeRow, plan_max_age
from vestige.planning.plan import Plan, Row, plan
from vestige.planning.prediction import Prediction, predict

__all__ = ["AgePlan", "AgeRow", "Plan", "Prediction", "Row", "draw_plan", "plan", "plan_max_age", "predict"]
