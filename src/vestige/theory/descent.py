"""Stochastic gradient descent tolerates an adversary who moves each step by little enough.

Lemma 3.2 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997), after Rakhlin, Shamir, Sridharan (2012,
https://doi.org/10.48550/arXiv.1109.5647): a lambda-strongly convex objective, steps of size 1 / (lambda t), gradients
with E|g|^2 <= Gamma^2, and after each step a perturbation zeta_t, chosen by an adversary who has seen everything, with
E|zeta_t|^2 <= Gamma^2 / (lambda^2 T^3). The induction in the text mixes g_t with g_(t+1) and starts at
4 Gamma^2 / lambda^2; with the indices corrected, the lemma holds as stated.
Guarantee: no adversary at the limit breaks the bound; held by tests/theory/test_descent.py.
"""

from __future__ import annotations

from vestige.validation import MAX_COUNT, check_int, check_moderate


def descent_bound(gradient: float, convexity: float, steps: int) -> float:
    """Return an upper bound on the expected squared distance from the minimum: 7 Gamma^2 / (lambda^2 T).

    Args:
        gradient: Gamma, a bound on the root mean square norm of the stochastic gradients.
        convexity: lambda of the strong convexity; 1 for the mean, the smallest eigenvalue of E[x x^T] for regression.
        steps: T, the number of steps.

    Returns:
        The bound on E|s_T - s*|^2.

    Raises:
        ParameterError: if `gradient` or `convexity` is not above 0, or `steps` is not a whole number, 1 or more.

    Example:
        >>> descent_bound(gradient=1.0, convexity=1.0, steps=100)
        0.07
    """
    return 7.0 * _squared_ratio(gradient, convexity) / check_int("steps", steps, 1, MAX_COUNT)


def noise_limit(gradient: float, convexity: float, steps: int) -> float:
    """Return the largest mean square perturbation per step for which `descent_bound` holds: Gamma^2 / (lambda^2 T^3).

    The residual of an encoding must stay below it.

    Args:
        gradient: Gamma; see `descent_bound`.
        convexity: lambda; see `descent_bound`.
        steps: T, the number of steps.

    Returns:
        The limit on E|zeta_t|^2.

    Raises:
        ParameterError: if `gradient` or `convexity` is not above 0, or `steps` is not a whole number, 1 or more.

    Example:
        >>> noise_limit(gradient=1.0, convexity=1.0, steps=100)
        1e-06
    """
    return _squared_ratio(gradient, convexity) / check_int("steps", steps, 1, MAX_COUNT) ** 3


def _squared_ratio(gradient: float, convexity: float) -> float:
    """Return Gamma^2 / lambda^2."""
    return (check_moderate("gradient", gradient) / check_moderate("convexity", convexity)) ** 2
