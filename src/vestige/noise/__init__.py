"""Noise that hides one record: how much a guarantee needs, and an exact sampler."""

from vestige.noise.calibration import gaussian_delta, gaussian_epsilon, noise_scale

__all__ = ["gaussian_delta", "gaussian_epsilon", "noise_scale"]
