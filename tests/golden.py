"""What commands print and what streams hold, written down: a change that nobody meant shows as a difference.

`python tests/golden.py` writes the files in tests/golden anew; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import pkgutil
import random
import re
import secrets
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from click.testing import CliRunner

import vestige
from vestige import KeyedStreams, Policy, Stream, open_store, times
from vestige.cli import command
from vestige.policies import STATISTICS
from vestige.types import Floats

FOLDER = Path(__file__).with_name("golden")
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
_LONG = re.compile(r"-?\d+\.\d{10,}(?:e[-+]?\d+)?|-?\d+(?:\.\d+)?e-\d+")
_CHOSEN = re.compile(r'(?<="held": )\d+|(?<="oldest_age": )\d+|(?<=Held: ).*')
_MOST = 2_000
_MEASURED = re.compile(r'(?<="seconds": )[\d.e-]+| +[\d.]+ [nµm]?s(?= )')
_SECRET = re.compile(r"\b[0-9a-f]{16,}\b|(?<![\w-])[\w-]{43}(?![\w-])")
LIMITS = "--time at --max-age 20d --seed 1"
ROUNDED = {"moments", "ratio", "covariance", "correlation", "regression", "logistic", "metrics"}
"""Statistics in which libraries of linear algebra round as the processor pleases, which decides what is kept."""
RUN = {
    "count": "--column spent",
    "mean": "--column spent",
    "sum": "--column spent",
    "moments": "--column spent",
    "quantiles": "--column spent",
    "extremes": "--column spent",
    "histogram": "--column spent --edges 0,20,40",
    "exact_histogram": "--column visits --edges 0,3,9",
    "shares": "--column kind --categories a,b,c",
    "top": "--column visits",
    "histogram_quantiles": "--column spent --edges 0,20,40",
    "distinct": "--column customer",
    "ratio": "--column spent --column visits",
    "covariance": "--column spent --column visits",
    "correlation": "--column spent --column visits",
    "regression": "--column visits --target spent",
    "logistic": "--column visits --target late",
    "metrics": "--metric spent:mean,sum --metric visits:extremes --metric kind:shares[a,b,c]",
}
"""Options of `vestige run` by statistic."""
LARGE = {"exact_histogram": 600, "metrics": 1_700, "quantiles": 40_000, "top": 40_000, "distinct": 40_000}
"""Retentions, where 400 are too few."""
SESSION = (
    f"run visits.csv --store shop.db --by shop --subject customer --column spent {LIMITS}",
    f"run visits.csv --store shop.db --by shop --subject customer --column spent {LIMITS} --json",
    "list shop.db",
    "list shop.db --json",
    "estimate shop.db",
    "estimate shop.db --format json",
    "estimate shop.db --format csv",
    "retained shop.db",
    "retained shop.db --json",
    "forget shop.db --subject customer3 --reference ticket-1 --dry-run",
    "forget shop.db --subject customer3 --reference ticket-1",
    "forget shop.db --subject customer4 --now --json",
    "receipts shop.db",
    "receipts shop.db --format json",
    "sweep shop.db --dry-run",
    "sweep shop.db --json",
    "sweep shop.db",
    "verify shop.db",
    "verify shop.db --json --canary customer3",
    "export shop.db --sqlite answers.sqlite",
    "audit store shop.db",
    "audit store shop.db --json",
    "remove shop.db --stream north",
    "rekey shop.db",
    "list shop.db",
    "run missing.csv --column spent --retention 96",
    "run visits.csv --column nothing --retention 96",
    "run visits.csv --column spent --retention 3",
    "plan visits.csv --column spent --error 1",
    "plan visits.csv --column spent --error 1 --json",
    "plan --statistic mean --error 0.05",
    "init visits.csv",
    "run",
    "run --json",
    "estimate",
    "nightly --requests requests.tsv --answers answers.csv",
    "nightly --requests requests.tsv --answers answers.csv",
    "audit policy visits.csv --column spent --retention 96 --trials 40 --batches 4 --seed 1",
    "audit policy visits.csv --column spent --retention 96 --trials 40 --batches 4 --seed 1 --json",
    "audit table --id id --column spent day1.csv day2.csv day3.csv --trials 99 --seed 1",
    "audit table --id id --column spent day1.csv day2.csv day3.csv --trials 99 --seed 1 --json",
    "lab list",
    "token tokens.toml --add reader --scope read",
    "token tokens.toml --json",
)
"""Commands that follow each other in one folder."""


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class _Fixed(datetime, metaclass=_Kind):
    """The time that does not go on."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return NOW.astimezone(tz)


@contextlib.contextmanager
def freeze() -> Iterator[None]:
    """Have the same time and the same random numbers at each run."""
    coins = random.Random(0)  # noqa: S311
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(secrets, "randbits", coins.getrandbits))
        stack.enter_context(mock.patch.object(times, "datetime", _Fixed))
        yield


def write_inputs(folder: Path) -> None:
    """Write the files that the commands read."""
    place, lines = 7, ["id,at,shop,customer,spent,visits,kind,late"]
    for i in range(900):
        place = (place * 1_103_515_245 + 12_345) % 2**31
        a, b, c = place % 997, place // 997 % 89, place // 88_733 % 53
        shop, kind = ("north", "south", "east")[a % 3], "aabbc"[b % 5]
        spent, late = f"{a % 40 + b / 100:.2f}", int(a % 9 > b % 9)
        lines.append(f"{i},{1_768_500_000 + 1_300 * i},{shop},customer{c},{spent},{a % 9},{kind},{late}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    for day in (1, 2, 3):
        kept = [line for i, line in enumerate(lines[1 : 300 * day + 1]) if i >= 300 * (day - 1) or i % 3]
        (folder / f"day{day}.csv").write_text("\n".join([lines[0], *kept]) + "\n")
    (folder / "requests.tsv").write_text("customer5\tticket-9\ncustomer6\tticket-10\n")


def call(line: str, is_rounded: bool = False) -> str:
    """What a command prints and how it ends, numbers rounded to what all machines agree on."""
    made = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None}).invoke(command, line.split(), prog_name="vestige")
    text = _LONG.sub(lambda found: f"{float(found[0]):.8g}", made.output.replace(str(Path.cwd()), "."))
    text = "".join(part for part in text.splitlines(keepends=True) if not part.startswith("vestige: compiling"))
    text, secrets_ = _MEASURED.sub("*", _CHOSEN.sub("*", text) if is_rounded else text), list[str]()
    for found in _SECRET.findall(text):
        secrets_ += [] if found in secrets_ else [found]
        text = text.replace(found, f"<secret {secrets_.index(found) + 1}>")
    if len(text) > _MOST:
        text = f"{text[:_MOST]}\n... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"$ vestige {line}\n{text.rstrip()}\n[{made.exit_code}]\n"


def show_commands() -> dict[str, str]:
    """What all commands print, by the name of a file."""
    shown, here = {}, Path.cwd()
    with tempfile.TemporaryDirectory() as name, freeze():
        os.chdir(name)
        try:
            write_inputs(Path(name))
            missing = set(STATISTICS) - set(RUN)
            assert not missing, f"tests/golden.py has no run of {missing}"
            for statistic, options in RUN.items():
                chosen = "" if statistic == "metrics" else f"--statistic {statistic}"
                line = f"run visits.csv {chosen} {options} --retention {LARGE.get(statistic, 400)} --seed 1"
                pair = [call(line + end, statistic in ROUNDED) for end in ("", " --json")]
                shown[f"run-{statistic}.txt"] = "\n".join(pair)
            shown["session.txt"] = "\n".join(map(call, SESSION))
        finally:
            os.chdir(here)
    return shown


def draw_rows(columns: int, n: int) -> Floats:
    """Whole numbers of which no library decides, the last column 0 or 1."""
    place = np.arange(1, n * columns + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    rows = ((place >> np.uint64(40)) % np.uint64(1_000)).astype(np.float64).reshape(n, columns)
    if columns > 1:
        rows[:, -1] = rows[:, -1] % 2.0
    return rows + 1.0


def trace(stream: Stream | KeyedStreams, key: str | None, name: str) -> str:
    """What a stream holds: its clock, and the rounds or, where these depend on the processor, the answer."""
    mine = () if key is None else (key,)
    clock = stream.clock(*mine) if mine else stream.clock  # type: ignore[operator]
    if name in ROUNDED:
        return f"{clock} {np.ravel(stream.estimate(*mine).value).round(5).tolist()}"
    retained: Any = stream.retained(*mine) if mine else stream.retained  # type: ignore[operator]
    return f"{clock} {retained.rounds.tolist()}"


def make_policies() -> dict[str, Policy]:
    """A policy of each statistic and of each channel of a mean."""
    made: dict[str, Policy] = {f"mean, {name}": vestige.Mean(channel=name) for name in ("average", "auto")}
    for name, kind in STATISTICS.items():
        options = ("1", "400") if kind.takes_edges else ("1", "2") if name == "shares" else ()
        targets = max(kind.min_targets, 0)
        made[name] = (
            kind.from_options(options, 1, None)
            if options
            else kind.from_columns(kind.min_columns, targets, "auto" if name != "mean" else "bits", None)
        )
    return made


def show_traces() -> dict[str, str]:
    """Hashes of what streams hold at several times, by statistic and runtime."""
    found: dict[str, dict[str, str]] = {}
    for name, policy in make_policies().items():
        retention = policy.default_retention  # type: ignore[attr-defined]
        rows = draw_rows(policy.columns, 3 * retention)
        if name in ("logistic", "shares"):
            rows[:, -1] = rows[:, -1] % 2.0
        found[name] = {runtime: run(policy, retention, rows, name) for runtime, run in RUNTIMES.items()}
    return {"traces.json": json.dumps(found, indent=1) + "\n"}


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _run_stream(policy: Policy, retention: int, rows: Floats, name: str) -> str:
    stream, seen = Stream(policy, retention=retention, seed=1), []
    for part in np.array_split(rows, 7):
        stream.extend(part)
        stream.forget(rounds=range(max(1, stream.t - 9), stream.t - 6))
        seen.append(trace(stream, None, name))
    return _hash(seen)


def _run_keyed(policy: Policy, retention: int, rows: Floats, name: str) -> str:
    streams, seen = KeyedStreams(policy, retention=retention, seed=1), []
    for part in np.array_split(rows, 5):
        streams.extend(np.where(np.arange(len(part)) % 4 == 0, "a", "b"), part)
        seen += [trace(streams, key, name) for key in ("a", "b")]
    return _hash(seen)


def _run_stored(policy: Policy, retention: int, rows: Floats, name: str) -> str:
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for part in np.array_split(rows, 3):
            with open_store(f"{folder}/a.db") as store:
                stream = Stream(policy, retention=retention, seed=1, store=store.stream("a"))
                stream.extend(part)
                seen.append(trace(stream, None, name))
                keyed = KeyedStreams(policy, retention=retention, seed=1, store=store.family())
                keyed.extend(np.full(len(part), "k"), part)
                seen.append(trace(keyed, "k", name))
    return _hash(seen)


RUNTIMES = {"stream": _run_stream, "keyed": _run_keyed, "stored": _run_stored}


def show_names() -> dict[str, str]:
    """All public names of the package and its sub-packages."""
    lines = [f"vestige.{name}" for name in vestige.__all__]
    for module in pkgutil.iter_modules(vestige.__path__, "vestige."):
        if module.ispkg:
            lines += [f"{module.name}.{name}" for name in getattr(importlib.import_module(module.name), "__all__", ())]
    return {"names.txt": "\n".join(lines) + "\n"}


SHOWN = {"commands": show_commands, "traces": show_traces, "names": show_names}


def main() -> None:
    """Write all files anew."""
    FOLDER.mkdir(exist_ok=True)
    for make in SHOWN.values():
        for name, text in make().items():
            (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
