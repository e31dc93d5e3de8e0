"""Public randomness: a key for each round, hashed from seed and round, and draws from it; no generator lives on."""
