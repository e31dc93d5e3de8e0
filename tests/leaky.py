"""Policies that cheat, each in its own way; tests/test_checks.py wants every one of them caught."""

from __future__ import annotations

import functools
import hashlib
import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

import leaky_helper
from vestige import Clock, Mean, Policy, Records
from vestige.types import Bools, Floats, Ints

MODULE_MEMORY: list[float] = []
_FOLDER = Path(__file__).parent.parent / ".cache"
DIARY = Path(os.environ.setdefault("VESTIGE_DIARY", str(_FOLDER / f"diary-{os.getpid()}")))


@dataclass(frozen=True)
class Window(Policy):
    """What an honest one would do; the others spoil it."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        return ~np.concatenate((retained.leaving, arrivals.leaving))

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(np.sort(retained.values.ravel()).mean())


class InstanceAttribute(Window):
    """Keeps a running sum on itself."""

    total = 0.0

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        object.__setattr__(self, "total", self.total + float(arrivals.values.sum()))
        return super().update(clock, retained, arrivals, coins)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return self.total / clock.t


class ClassVariable(Window):
    """Keeps a running sum on its class."""

    total = 0.0

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        type(self).total += float(arrivals.values.sum())
        return super().update(clock, retained, arrivals, coins)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return self.total / clock.t


class ModuleVariable(Window):
    """Keeps sums in its module."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        MODULE_MEMORY.append(float(arrivals.values.sum()))
        return super().update(clock, retained, arrivals, coins)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return sum(MODULE_MEMORY) / clock.t


class DefaultArgument(Window):
    """Keeps sums in a default argument."""

    def update(
        self,
        clock: Clock,
        retained: Records,
        arrivals: Records,
        coins: int,
        seen: list[float] = [],  # noqa: B006
    ) -> Bools:
        seen.append(float(arrivals.values.sum()))
        keep = super().update(clock, retained, arrivals, coins)
        keep[:1] &= bool(sum(seen) > 0)
        return keep


def _remembering() -> Callable[[float], float]:
    seen: list[float] = []

    def total(value: float) -> float:
        seen.append(value)
        return sum(seen)

    return total


class Closure(Window):
    """Keeps sums in a closure."""

    total = staticmethod(_remembering())

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return self.total(float(retained.values.mean()))


class KeptGenerator(Window):
    """Draws from a generator that lives across rounds."""

    rng = np.random.default_rng(0)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = super().update(clock, retained, arrivals, coins)
        return keep & (self.rng.random(len(keep)) < 0.5)


class File(Window):
    """Keeps sums in a file."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        with DIARY.open("a") as diary:
            diary.write(f"{arrivals.values.sum()}\n")
        return super().update(clock, retained, arrivals, coins)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return sum(map(float, DIARY.read_text().split() if DIARY.exists() else ())) / clock.t


class SilentFile(Window):
    """Writes records to a file, and never uses it."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        descriptor = os.open(DIARY, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, arrivals.values.tobytes())
        os.close(descriptor)
        return super().update(clock, retained, arrivals, coins)


class SampleHoarder(Window):
    """Stores every sample in a class variable, and never uses them."""

    samples: list[Any] = []  # noqa: RUF012

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        self.samples.append(arrivals.values.copy())
        return super().update(clock, retained, arrivals, coins)


@functools.lru_cache
def _squares(raw: bytes) -> float:
    return float(np.square(np.frombuffer(raw)).sum())


class Cache(Window):
    """Caches what it computed: its results do not change, but the records stay in memory."""

    cached = _squares

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        _squares(arrivals.values.tobytes())
        return super().update(clock, retained, arrivals, coins)


class StorageOrder(Window):
    """Answers with the record that happens to be stored first."""

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values[0, 0])


class StorageOrderOfKept(Window):
    """Keeps the half that happens to be stored first."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = super().update(clock, retained, arrivals, coins)
        keep[len(retained) + len(arrivals) // 2 :] = False
        return keep


class QuietSum(Window):
    """Keeps a running sum on its class, and never uses it."""

    total = 0.0

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        type(self).total += float(arrivals.values.sum())
        return super().update(clock, retained, arrivals, coins)


class PackedSamples(Window):
    """Stores samples in single precision, in an array of the standard library."""

    samples = array("f")

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        self.samples.extend(arrivals.values.ravel().tolist())
        return super().update(clock, retained, arrivals, coins)


class HelperModule(Window):
    """Stores samples in another module of its own."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        leaky_helper.SAMPLES.append(arrivals.values.copy())
        return super().update(clock, retained, arrivals, coins)


class Environment(Window):
    """Leaves the last value in the environment."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        os.environ["VESTIGE_LEAK"] = repr(float(arrivals.values[0, 0]))
        return super().update(clock, retained, arrivals, coins)


class OpenLog(Window):
    """Writes to a file that it opened when it was first used."""

    log: IO[bytes] | None = None

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        if OpenLog.log is None:
            OpenLog.log = DIARY.open("ab", buffering=0)
        OpenLog.log.write(arrivals.values.tobytes())
        return super().update(clock, retained, arrivals, coins)


class DiskMemo(Window):
    """Remembers on disk what it was once asked, under a name made of that."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        digest = hashlib.sha256(arrivals.values.tobytes()).hexdigest()
        memo = DIARY.with_suffix(f".{digest[:16]}")
        if not memo.exists():
            memo.write_bytes(arrivals.values.tobytes())
        return super().update(clock, retained, arrivals, coins)


class FolderName(Window):
    """Makes a folder that is named after a value."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        DIARY.with_suffix(f".{arrivals.values[0, 0]}").mkdir(exist_ok=True)
        return super().update(clock, retained, arrivals, coins)


class NoAnswer(Window):
    """Answers with nothing."""

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return None  # type: ignore[return-value]


@dataclass(frozen=True)
class WholeParameter(Window):
    """Honest, with a parameter that also occurs among whole-number records."""

    rate: float = 1.0


@dataclass(frozen=True)
class LostInPickle(Window):
    """A parameter that does not survive a pickle round trip."""

    factor: float = 2.0

    def __reduce__(self) -> tuple[object, ...]:
        return LostInPickle, (1.0,)

    def answer(self, clock: Clock, retained: Records) -> float:
        return self.factor * super().answer(clock, retained)


@dataclass(frozen=True)
class NoPickle(Window):
    """Holds a function that cannot be pickled."""

    function: Callable[[float], float] = field(default=lambda x: x)


class ThisProcess(Window):
    """Answers differently in every process, since the hash of a string does."""

    def answer(self, clock: Clock, retained: Records) -> float:
        return super().answer(clock, retained) + hash("a string") % 1_000_003


class GlobalRandom(Window):
    """Draws from numpy's global generator."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = super().update(clock, retained, arrivals, coins)
        return keep & (np.random.random(len(keep)) < 0.5)  # noqa: NPY002


class KeepsLeavers(Window):
    """Keeps what must leave."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        return np.ones(len(retained) + len(arrivals), np.bool_)


class WritesIntoRecords(Window):
    """Tries to change the records that it is shown."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        arrivals.values[:] = 0.0
        return super().update(clock, retained, arrivals, coins)


@dataclass(frozen=True)
class OtherWhenMany(Window):
    """Keeps other records if it is asked for many batches at once."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        return super().update(clock, retained, arrivals, coins)

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:  # noqa: ARG002
        keep: Bools = np.arange(len(values)) % 2 == 0
        return keep


class SetsTheClock(Window):
    """Sets back the clock that it is shown."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        object.__setattr__(clock, "t", 0)
        return super().update(clock, retained, arrivals, coins)


class Talks(Window):
    """Fails with a value in its error."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        raise ValueError(f"cannot take {arrivals.values[0, 0]}")


class AlwaysEncodes(Mean):
    """Says that it can go on, whatever it is left with."""

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:  # noqa: ARG002
        return True


class RewritesBySign(Window):
    """Starts again or not, as the values tell it."""

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        return (clock.last, ~retained.leaving) if retained.values.sum() > 0.0 else None


@dataclass(frozen=True)
class Many(Window):
    """An honest one that takes many batches at once; the next ones spoil it."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = super().update(clock, retained, arrivals, coins)
        keep[: len(retained)] = False
        return keep

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        return self._newest(clock, retained, values, len(values) // len(keys))

    def _newest(self, clock: Clock, retained: Records, values: Floats, batch: int) -> Bools:  # noqa: ARG002
        return np.ones(batch, np.bool_)


class ManyForAWhile(Many):
    """Hoards what it is shown of many batches, after a thousand records and for a while."""

    def _newest(self, clock: Clock, retained: Records, values: Floats, batch: int) -> Bools:
        if 1_000 < clock.t < 9_000_000:
            MODULE_MEMORY.append(float(values.sum()))
        return super()._newest(clock, retained, values, batch)


class ManyOnceLate(Many):
    """Keeps all that it can of many batches, once a thousand records have come."""

    def _newest(self, clock: Clock, retained: Records, values: Floats, batch: int) -> Bools:
        late = clock.last >= 1_024
        return np.ones(len(values), np.bool_) if late else super()._newest(clock, retained, values, batch)


def forget_everything() -> None:
    """Wipe what the policies above remember, so that one does not give another away."""
    MODULE_MEMORY.clear()
    SampleHoarder.samples.clear()
    PackedSamples.samples = array("f")
    leaky_helper.SAMPLES.clear()
    _squares.cache_clear()
    os.environ.pop("VESTIGE_LEAK", None)
    if OpenLog.log is not None:
        OpenLog.log.close()
        OpenLog.log = None
    for path in DIARY.parent.glob(f"{DIARY.name}*"):
        path.rmdir() if path.is_dir() else path.unlink()


def honest_loss(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """A robust distance; here because a fresh process must find it."""
    gap = rows[:, 0] - parameters[0]
    return np.hypot(1.0, gap), -(gap / np.hypot(1.0, gap))[:, None]
