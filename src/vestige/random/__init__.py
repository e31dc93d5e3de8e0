"""Randomness in one place: a key for each round, draws from a key, and seeded generators.

The key of a round is hashed from the seed and the round, so that no generator lives across rounds.
Guarantee: the same seed gives the same draws in Python and in kernels; held by tests/random/test_keys.py.
"""
