"""The paper's algorithms for the mean and for linear regression, exactly as published.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024,
https://doi.org/10.48550/arXiv.2404.10997): Algorithm 1, its coordinate-wise improvement (Section 3.3), and Algorithm 2.
One half of a batch is learned from, the other half is kept from. In practice, use `vestige.Mean` and
`vestige.LinearRegression`: they learn from all records and keep from all records.
Guarantee: the same states as a literal transcription of the listings, and Appendix D's example exactly; held by
tests/test_paper.py.
"""

from vestige.paper.mean import CoordinateMean, SimpleMean
from vestige.paper.regression import Regression

__all__ = ["CoordinateMean", "Regression", "SimpleMean"]
