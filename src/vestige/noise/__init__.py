"""Noise that hides one record: how much a guarantee needs, an exact sampler, and what it makes of an answer."""

from vestige.noise.calibration import gaussian_delta, gaussian_epsilon, noise_scale
from vestige.noise.propagation import SURE, Noise

__all__ = ["SURE", "Noise", "gaussian_delta", "gaussian_epsilon", "noise_scale"]
