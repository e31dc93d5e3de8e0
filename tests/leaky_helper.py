"""Where one of the cheats in `leaky` hides what it saw."""

from __future__ import annotations

from typing import Any

SAMPLES: list[Any] = []
