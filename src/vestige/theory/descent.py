"""Gradient descent forgives an adversary, if he moves each step by little enough.

Lemma 3.2 of Immorlica et al. (2024), after Rakhlin, Shamir, Sridharan (2012): an objective that is lambda-strongly
convex, steps of size 1 / (lambda t), gradients with E|g|^2 <= Gamma^2, and after each step a push zeta_t, chosen by an
adversary who has seen everything, with E|zeta_t|^2 <= Gamma^2 / (lambda^2 T^3).
The induction in the text mixes g_t with g_(t+1) and begins at 4 Gamma^2 / lambda^2; counted right, it holds as stated.
Guarantee: no adversary at the limit breaks the bound; held by tests/theory/test_descent.py.
"""

from __future__ import annotations

from vestige.validation import MOST, check_int, check_positive


def descent_bound(gradient: float, convexity: float, steps: int) -> float:
    """The expected squared distance from the minimum after so many steps, at most: 7 Gamma^2 / (lambda^2 T).

    Args:
        gradient: Gamma, a bound of the root mean square norm of the stochastic gradients.
        convexity: lambda, of the strong convexity; 1 for the mean, the smallest eigenvalue of E[x x^T] for regression.
        steps: T.

    >>> descent_bound(gradient=1.0, convexity=1.0, steps=100)
    0.07
    """
    return 7.0 * _unit(gradient, convexity) / check_int("steps", steps, 1, MOST)


def noise_limit(gradient: float, convexity: float, steps: int) -> float:
    """The mean square push that each step may suffer, at most: Gamma^2 / (lambda^2 T^3).

    It is what the residual of an encoding must stay below; see `descent_bound` for the arguments.

    >>> noise_limit(gradient=1.0, convexity=1.0, steps=100)
    1e-06
    """
    return _unit(gradient, convexity) / check_int("steps", steps, 1, MOST) ** 3


def _unit(gradient: float, convexity: float) -> float:
    """Gamma^2 / lambda^2."""
    return (check_positive("gradient", gradient) / check_positive("convexity", convexity)) ** 2
