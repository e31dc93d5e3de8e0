"""Every claim of the paper, tested by an experiment whose verdict is computed and could have been negative.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024),
https://doi.org/10.48550/arXiv.2404.10997. An experiment is one small file in `vestige.lab.experiments`; `vestige lab`
lists, runs and reports them.
Guarantee: each verdict changes when a part on trial is broken; held by tests/lab/test_verdicts.py.
"""

from vestige.lab.discovery import Contents, load_file, load_installed
from vestige.lab.experiment import Experiment, Verdict, grid
from vestige.lab.experiments import EXPERIMENTS
from vestige.lab.report import Finding, collect_findings
from vestige.lab.results import Results
from vestige.lab.runner import Progress, run
from vestige.lab.submission import Contest, Origin, Submission

__all__ = [
    "EXPERIMENTS",
    "Contents",
    "Contest",
    "Experiment",
    "Finding",
    "Origin",
    "Progress",
    "Results",
    "Submission",
    "Verdict",
    "collect_findings",
    "grid",
    "load_file",
    "load_installed",
    "run",
]
