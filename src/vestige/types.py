"""Types of numpy arrays, by their elements: booleans, floats, integers, times and 64-bit words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Times = NDArray[np.datetime64]
Words = NDArray[np.uint64]
