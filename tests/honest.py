"""Honest policies, each with something that looks like a memory; tests/test_honest.py wants none of them accused."""

# ruff: noqa: ARG002, D101

from __future__ import annotations

import atexit
import bisect
import collections
import concurrent.futures
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import fractions
import functools
import io
import itertools
import logging
import math
import operator
import random
import re
import string
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from leaky import Window
from vestige import Clock, Mean, Policy, Records
from vestige.policies import MeanEstimate
from vestige.types import Bools, Floats

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
WRITTEN = io.StringIO()
NOISY = logging.getLogger(f"{__name__}.noisy")
NOISY.propagate = False
NOISY.addHandler(logging.StreamHandler(WRITTEN))
NOISY.handlers[0].setFormatter(logging.Formatter("%(asctime)s %(message)s"))
NOISY.setLevel(logging.INFO)
TABLE: dict[int, float] = {}
SEEN_SIZES: set[int] = set()


class Plain(Window):
    """A window that calls `look` at each update, and throws away what comes of it."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        """What looks like a memory."""
        raise NotImplementedError

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        self.look(clock, retained, arrivals, coins)
        return super().update(clock, retained, arrivals, coins)


class Thinned(Window):
    """Keeps about half of the records, by the coins and the values, so that their number depends on the values."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        rng = np.random.default_rng(coins)
        values = np.concatenate((retained.values, arrivals.values))[:, 0]
        keep = super().update(clock, retained, arrivals, coins)
        order = np.argsort(np.concatenate((retained.rounds, arrivals.rounds)))
        kept = np.empty(len(keep), np.bool_)
        kept[order] = rng.random(len(keep)) < 1.0 / (1.0 + np.exp(-values[order]))
        return keep & kept

    def answer(self, clock: Clock, retained: Records) -> float:
        return super().answer(clock, retained) if len(retained) else 0.0


class Subclass(Mean):
    """A subclass of ours that changes nothing."""


class SubclassWithName(Mean):
    """A subclass of ours with a constant and a method of its own."""

    unit: ClassVar[str] = "s"

    def describe(self) -> str:
        return f"mean in {self.unit}"

    def answer(self, clock: Clock, retained: Records) -> MeanEstimate:
        self.describe()
        return super().answer(clock, retained)


def _make_weight(power: float) -> Callable[[int], float]:
    def weigh(size: int) -> float:
        return math.pow(size, -power)

    return weigh


class ClosureOverConstant(Plain):
    weigh = staticmethod(_make_weight(0.5))

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return self.weigh(1 + len(arrivals))


@functools.lru_cache
def _sum_of_reciprocals(size: int) -> float:
    return sum(1.0 / i for i in range(1, size + 1))


class CacheOfSizes(Plain):
    """Caches a function of the number of arrivals."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return _sum_of_reciprocals(len(arrivals))


class CacheOfKept(Thinned):
    """Caches a function of the number of records that are held, which depends on the values."""

    def answer(self, clock: Clock, retained: Records) -> float:
        return super().answer(clock, retained) + _sum_of_reciprocals(len(retained))


@functools.cache
def _get_level(t: int) -> int:
    return t.bit_length()


class CacheOfRounds(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return _get_level(clock.t)


@functools.lru_cache(maxsize=4)
def _double(size: int) -> int:
    return 2 * size


class SmallCacheOfKept(Thinned):
    """A cache that forgets the least recently used."""

    def answer(self, clock: Clock, retained: Records) -> float:
        return super().answer(clock, retained) + _double(len(retained) // 8)


class CachedMethod(Plain):
    """A method with a cache, whose key is the policy itself."""

    @functools.lru_cache  # noqa: B019
    def weigh(self, size: int) -> float:
        return 1.0 / (1 + size)

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return self.weigh(len(retained))


@dataclass(frozen=True)
class CachedProperty(Plain):
    """A property that is computed from the parameters, once."""

    size: int = 8

    @functools.cached_property
    def weights(self) -> Floats:
        return np.arange(1.0, self.size + 1)

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return self.weights.sum()


class LazyImport(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        import colorsys  # noqa: PLC0415

        return colorsys.rgb_to_hsv(0.5, 0.5, 0.5)


class LazyImportOfMuch(Plain):
    """A package that starts programs, makes folders and registers functions while it is imported."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        import sklearn.linear_model  # noqa: PLC0415

        return sklearn.linear_model.LinearRegression


class LazyImportByValue(Plain):
    """An import that not all records need."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if arrivals.values.max(initial=0.0) > 2.5:
            import fileinput  # noqa: PLC0415

            return fileinput.FileInput
        return None


@numba.njit
def _add_up(values: Any) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


class FirstUseOfNumba(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return _add_up(arrivals.values[:, 0])


class LateUseOfNumba(Plain):
    """Compiles a kernel after a thousand records."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return _multiply(arrivals.values[:, 0]) if clock.t > 1_000 else None


@numba.njit(cache=True)
def _multiply(values: Any) -> float:
    total = 1.0
    for value in values:
        total *= value
    return total


class ClassTable(Plain):
    """A table on the class that is filled on first use."""

    roots: ClassVar[Floats | None] = None

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if ClassTable.roots is None:
            ClassTable.roots = np.sqrt(np.arange(1_000.0))
        return ClassTable.roots[len(arrivals)]


class GrowingTable(Thinned):
    """A table on the class that grows to the largest number of records held."""

    factorials: ClassVar[list[float]] = [1.0]

    def answer(self, clock: Clock, retained: Records) -> float:
        while len(self.factorials) <= len(retained) // 4:
            self.factorials.append(self.factorials[-1] * len(self.factorials))
        return super().answer(clock, retained) + self.factorials[len(retained) // 4]


class ModuleTable(Thinned):
    """A table in the module by the number of records held."""

    def answer(self, clock: Clock, retained: Records) -> float:
        size = len(retained)
        if size not in TABLE:
            TABLE[size] = math.lgamma(size + 1)
        return super().answer(clock, retained) + TABLE[size]


class WarnsOnce(Plain):
    """Warns, so that the module gets a registry of warnings."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        warnings.warn("batches are small", stacklevel=1)
        return None


class WarnsSeldom(Plain):
    """Warns at some values only."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if arrivals.values.max(initial=0.0) > 2.5:
            warnings.warn("a value is large", stacklevel=1)
        return None


class NumpyWarns(Plain):
    """Divides by zero, about which numpy warns."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return np.log(np.maximum(arrivals.values, 0.0))


class RegularExpression(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return re.match(r"t=(\d+)", f"t={clock.t}")


class OwnRandomState(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return np.random.RandomState(coins % 2**32).random(), random.Random(coins).random()  # noqa: S311


class SharedRandomState(Plain):
    """A random state on the class that starts from the coins at each update."""

    rng: ClassVar[random.Random] = random.Random(0)  # noqa: S311

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        self.rng.seed(coins)
        return self.rng.random()


@dataclass(frozen=True, eq=False)
class ArrayParameter(Plain):
    weights: Floats = field(default_factory=lambda: np.linspace(0.0, 1.0, 9))

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return self.weights @ self.weights


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Flags(enum.IntFlag):
    A = 1
    B = 2
    C = 4


@dataclass(frozen=True)
class EnumParameter(Plain):
    """An enumeration; those of flags make members for combinations on first use."""

    mode: Mode = Mode.FAST

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return Mode("slow"), Flags(clock.t % 8)


class Logs(Plain):
    """Logs the round."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        LOG.warning("update at t=%d", clock.t)
        logging.getLogger("honest.lazy").info("update")
        return None


class LogsWithTime(Plain):
    """Logs the round, with the time, to a handler that keeps the text."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        NOISY.info("update at t=%d", clock.t)
        return None


class Prints(Plain):
    """Prints the round."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        print("update at", clock.t)
        return None


class MeasuresItself(Plain):
    """Keeps how long it took."""

    seconds: ClassVar[list[float]] = []
    total: ClassVar[float] = 0.0

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        started = time.perf_counter()
        np.sort(arrivals.values)
        spent = time.perf_counter() - started
        self.seconds.append(spent)
        MeasuresItself.total += spent
        return None


class CountsCalls(Plain):
    """Counts its updates, and uses the count for nothing."""

    calls: ClassVar[Iterator[int]] = itertools.count()

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return next(self.calls)


class Threads(Plain):
    """Works in threads, which stay for the next time."""

    pool: ClassVar[concurrent.futures.ThreadPoolExecutor | None] = None

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if Threads.pool is None:
            Threads.pool = concurrent.futures.ThreadPoolExecutor(1)
        return Threads.pool.submit(math.sqrt, len(arrivals)).result()


class Locks(Plain):
    lock: ClassVar[Any] = threading.Lock()
    local: ClassVar[Any] = threading.local()

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        with self.lock:
            self.local.depth = 1
        return None


class Decimals(Plain):
    """Computes with decimals and fractions, which set flags in their context."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        total = sum((decimal.Decimal(value) for value in arrivals.values[:, 0].tolist()), decimal.Decimal(0))
        with decimal.localcontext() as context:
            context.prec = 50
            return total / 3, fractions.Fraction(1, 3)


class Formats(Plain):
    """Sets options of numpy for a while."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        with np.printoptions(precision=3), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f"{clock.t:_}", string.Template("$t").substitute(t=clock.t)


VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("batch", default=0)


class ContextVariable(Plain):
    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        token = VARIABLE.set(len(arrivals))
        VARIABLE.reset(token)
        return VARIABLE.get()


class Dispatches(Plain):
    """A function by type, with a cache of types."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return _describe(clock.t), _describe(arrivals.values), isinstance(clock, collections.abc.Sized)


@functools.singledispatch
def _describe(thing: object) -> str:
    return type(thing).__name__


@_describe.register
def _(thing: int) -> str:
    return str(thing.bit_length())


class Point(NamedTuple):
    x: float
    y: float


class MakesTypes(Plain):
    """Makes classes while it runs."""

    made: ClassVar[dict[str, type]] = {}

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if "pair" not in self.made:
            self.made["pair"] = dataclasses.make_dataclass("Pair", [("x", float), ("y", float)], frozen=True)
            self.made["named"] = collections.namedtuple("named", "x y")
        return self.made["pair"](1.0, 2.0), Point(1.0, 2.0)


class Registered:
    """Something that is known by a weak reference."""


class WeakReferences(Plain):
    known: ClassVar[Any] = weakref.WeakValueDictionary()
    one: ClassVar[Registered] = Registered()

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        self.known["one"] = self.one
        return weakref.ref(self.one)


class AtExit(Plain):
    """Registers something once."""

    is_registered: ClassVar[bool] = False

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        if not AtExit.is_registered:
            atexit.register(math.sqrt, 4.0)
            AtExit.is_registered = True
        return None


class Errors(Plain):
    """Raises an error with a value in it, and catches it."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        with contextlib.suppress(ValueError):
            raise ValueError(float(arrivals.values.sum()))
        try:
            return float(arrivals.values.sum()) / 0.0
        except ZeroDivisionError as error:
            return copy.copy(error)


class Generators(Plain):
    """Generators, iterators and functions that last for one call."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        values = iter(arrivals.values[:, 0].tolist())
        running = itertools.accumulate(values, operator.add)
        largest = functools.partial(max, default=0.0)
        return largest(running), bisect.bisect([1.0, 2.0], 1.5)


class Cycle(Plain):
    """Leaves rings behind, which the collector finds later."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        ring = types.SimpleNamespace(value=float(arrivals.values.sum()))
        ring.itself = ring
        return ring


class UsesScipy(Plain):
    """A library that fills tables of its own."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        from scipy import optimize, special, stats  # noqa: PLC0415

        found = optimize.minimize_scalar(lambda x: (x - len(arrivals)) ** 2)
        return found.x, special.erf(0.5), stats.norm.ppf(0.975)


class UsesPandas(Plain):
    """A library with lazy parts and caches."""

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(np.array(arrivals.values)).describe().to_string()


@dataclass(frozen=True)
class Comparable(Plain):
    """Parameters of many kinds."""

    numbers: tuple[int, ...] = (1, 2)
    options: types.MappingProxyType[str, int] | None = None
    name: str = "ü"
    function: Callable[[float], float] = math.sqrt
    kind: type = float
    none: None = None

    def look(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> object:
        return self.function(len(self.numbers)), hash(self)


class ManyBatches(Window):
    """Takes many batches at once, and keeps the newest."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = super().update(clock, retained, arrivals, coins)
        keep[: len(retained)] = False
        return keep

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        _sum_of_reciprocals(len(keys))
        return np.ones(len(values) // len(keys), np.bool_)


def check(policy: Policy) -> None:
    """Check a policy, with what the check needs imported only now."""
    from vestige.checks import check_policy  # noqa: PLC0415

    check_policy(policy)


POLICIES: tuple[type[Window | Mean], ...] = tuple(
    kind
    for kind in list(globals().values())
    if isinstance(kind, type)
    and kind.__module__ == __name__
    and issubclass(kind, Window | Mean)
    and kind not in (Plain, Thinned)
)
"""All of the above."""
