"""Generators depend on the seed and the path alone, and are made in one place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import vestige
from vestige.random.generators import make_generator

SOURCE = Path(vestige.__file__).parent


def test_the_same_path_gives_the_same_numbers() -> None:
    assert make_generator(3, "lab", 5).integers(2**60) == make_generator(3, "lab", 5).integers(2**60)
    paths: list[tuple[int | str, ...]] = [(), (0, 1), (1, 0), ("a",), ("b",), ("a", 1)]
    assert len({int(make_generator(3, *path).integers(2**60)) for path in paths}) == len(paths)
    assert make_generator(3).integers(2**60) == np.random.default_rng(3).integers(2**60)


def test_no_other_module_makes_a_generator() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "random":
            code = "\n".join(line for line in path.read_text().splitlines() if not re.match(r"\s*(>>>|\.\.\.)", line))
            assert not re.search(r"default_rng\(|SeedSequence\(", code), path
