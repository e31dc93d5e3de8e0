"""Every claim of the paper, run: experiments whose verdicts are computed, and could have been no.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024). An experiment is one
small file in `vestige.lab.experiments`; `vestige lab` lists, runs and reports them.
Guarantee: each verdict changes when what is on trial is broken; held by tests/lab/test_verdicts.py.
"""

from vestige.lab.experiment import Experiment, Verdict, grid
from vestige.lab.experiments import EXPERIMENTS
from vestige.lab.results import Results
from vestige.lab.runner import Progress, run

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "Results", "Verdict", "grid", "run"]
