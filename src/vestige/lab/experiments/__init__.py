"""One file per claim; each is found here by its name, in the order in which the report tells them."""

from __future__ import annotations

from vestige.lab.experiment import Experiment
from vestige.lab.experiments import batching, descent, length, oracle, outlier, retention, subsets

_FILES = (retention, length, oracle, descent, subsets, batching, outlier)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _FILES}
