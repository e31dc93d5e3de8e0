"""One file per claim; each is found here by its name, in the order in which the report tells them."""

from __future__ import annotations

from vestige.lab.experiment import Experiment
from vestige.lab.experiments import retention

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in (retention,)}
