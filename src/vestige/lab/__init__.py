"""Every claim of the paper, tested by an experiment whose verdict is computed and could have been negative.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024),
https://doi.org/10.48550/arXiv.2404.10997. An experiment is one small file in `vestige.lab.experiments`; `vestige lab`
lists, runs and reports them.
Guarantee: each verdict changes when a part on trial is broken; held by tests/lab/test_verdicts.py.
"""

from vestige.lab.experiment import Experiment, Verdict, grid
from vestige.lab.experiments import EXPERIMENTS
from vestige.lab.results import Results
from vestige.lab.runner import Progress, run

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Results", "Verdict", "grid", "run"]
