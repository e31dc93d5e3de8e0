"""One file per claim; `EXPERIMENTS` has them by name, in the order of the report.

Guarantee: each verdict holds in a quick run, and changes when a part on trial is broken; held by
tests/lab/test_verdicts.py.
"""

from __future__ import annotations

from vestige.lab.experiment import Experiment
from vestige.lab.experiments import (
    adversary,
    batching,
    density,
    descent,
    dimension,
    drift,
    groups,
    leakage,
    length,
    long_lived_records,
    oracle,
    outlier,
    outputs,
    random_dp,
    regression,
    required_batch,
    retention,
    statistics,
    subsets,
    timing,
)

_MODULES = (
    retention,
    length,
    required_batch,
    oracle,
    regression,
    outputs,
    descent,
    subsets,
    groups,
    density,
    drift,
    adversary,
    statistics,
    batching,
    outlier,
    leakage,
    random_dp,
    timing,
    dimension,
    long_lived_records,
)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
