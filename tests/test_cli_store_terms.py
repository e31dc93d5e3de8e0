"""The terms of a store as the default of a run: the same state as with all options given, or a clear error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from vestige import Mean, MemoryStore, StoreError, Stream, open_store
from vestige.cli import command
from vestige.cli.store_terms import check_keyed

RNG = np.random.default_rng(17)


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(path: Path, start: int, rows: int) -> Path:
    """Write rows, one a minute, of which some come late and some miss a value."""
    late = np.where(RNG.random(rows) < 0.1, 3, 0)
    times = 1_700_000_000 + 60 * (start + np.arange(rows) - late)
    lines = [
        f"{when * 1_000},u{who},{shop},{x:.3f},{f'{y:.3f}' if y > -1.0 else ''}"
        for when, who, shop, x, y in zip(
            times,
            RNG.integers(0, 50, rows),
            RNG.choice(["a/b", "c"], rows),
            RNG.normal(5.0, 2.0, rows),
            RNG.normal(1.0, 1.0, rows),
            strict=True,
        )
    ]
    path.write_text("\n".join(["at,who,shop,x,y", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "options",
    [
        ("--column", "x", "--retention", 256, "--subject", "who"),
        ("--column", "x", "--column", "y", "--retention", 256, "--notice", 200, "--channel", "bits", "--stream", "s/1"),
        ("--statistic", "regression", "--column", "x", "--target", "y", "--retention", 512, "--half-life", 300),
        ("--statistic", "histogram", "--column", "x", "--edges", "0,5", "--retention", 256),
        ("--column", "x", "--window", "--retention", 256),
        ("--statistic", "shares", "--column", "shop", "--max-age", "30d", "--time", "at", "--lateness", "1h"),
        (
            *("--metric", "x:mean,sum", "--metric", "y:mean", "--by", "shop", "--hash-keys", "--stream", "p"),
            *("--max-age", "30d", "--time", "at", "--time-unit", "ms", "--lateness", "1h", "--subject", "who"),
        ),
    ],
    ids=["mean", "limits and channel", "regression", "histogram", "window", "shares", "metrics by hashed keys in time"],
)
def test_the_terms_of_the_store_are_those_that_were_given(options: tuple[object, ...], tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.csv", 900 * i, 900) for i in range(2)]
    stores = [tmp_path / "all.db", tmp_path / "left-out.db"]
    for store in stores:
        said("run", files[0], *options, "--store", store, "--seed", 1)
        if (key := Path(f"{stores[0]}.key")).exists():
            Path(f"{stores[1]}.key").write_bytes(key.read_bytes())  # so that hashes agree
    wanted = said("run", files[1], *options, "--store", stores[0], "--seed", 1)
    found = said("run", files[1], "--store", stores[1], "--seed", 1)
    assert found | {"seconds": 0} == wanted | {"seconds": 0}
    assert found["taken"] + found["skipped"] == 900
    listed = [vestige(name, store, "--json").stdout for name in ("retained", "list") for store in stores]
    assert listed[0] == listed[1]
    assert listed[2] == listed[3]


def test_the_noise_of_the_store_goes_on(tmp_path: Path) -> None:
    store, files = tmp_path / "v.db", [write(tmp_path / f"{i}.csv", 900 * i, 900) for i in range(2)]
    first = said(
        "run", files[0], "--column", "x", "--epsilon", 1, "--bound", 20, "--retention", 1_024, "--store", store
    )
    found = said("run", files[1], "--store", store)
    assert (found["private"], found["taken"]) == (first["private"], 900)
    assert "not allowed for Private" in vestige("run", files[1], "--store", store, "--seed", 1).stderr
    assert "--epsilon needs --column or --metric" in vestige("run", files[1], "--store", store, "--epsilon", 9).stderr


def test_what_was_taken_from_the_store_is_said(tmp_path: Path) -> None:
    store, file = tmp_path / "v.db", write(tmp_path / "v.csv", 0, 400)
    options = ("--max-age", "30d", "--time", "at", "--lateness", "1h", "--store", store)
    said("run", file, "--column", "x", *options)
    result = vestige("run", file, "--store", store)
    assert result.exit_code == 0, result.output
    assert (
        f"From {store}: max-age 30 days; time at; stream main; lateness 1 hour; column x; statistic mean.\n"
        in result.stderr
    )
    limits = vestige("run", file, "--store", store, "--column", "x", "--statistic", "mean")
    assert f"From {store}: max-age 30 days; time at; stream main; lateness 1 hour.\n" in limits.stderr
    complete = vestige("run", file, "--column", "x", *options)
    assert "From " not in complete.stderr


def test_a_default_may_change_and_terms_may_not(tmp_path: Path) -> None:
    store, file = tmp_path / "v.db", write(tmp_path / "v.csv", 0, 400)
    first = ("run", file, "--store", store, "--metric", "x:mean", "--by", "shop", "--max-age", "30d", "--time", "at")
    said(*first, "--lateness", "1h")
    again = said("run", file, "--store", store, "--lateness", "2h")
    assert (again["before"], again["taken"]) == (400, 0), "the streams were found under another lateness"
    assert said(*first, "--lateness", "3h")["before"] == 400
    assert "nothing found" in vestige("verify", store, "--at", "2023-11-15").output
    other = vestige("run", file, "--store", store, "--max-age", "20d")
    assert other.exit_code == 2
    assert "max_age=30 days, now max_age=20 days" in other.stderr
    grown = write(tmp_path / "w.csv", 400, 50)
    grown.write_text(grown.read_text().replace("a/b", "new"))
    said(*first[:1], grown, *first[2:], "--lateness", "5h")
    kept = vestige("run", file, "--store", store)
    assert "lateness 1 hour" in kept.stderr, "all streams of a run share what the first one was made with"
    assert said("run", file, "--store", store, "--lateness", "1h")["taken"] == 0


def test_other_metrics_are_named_once(tmp_path: Path) -> None:
    store, file = tmp_path / "v.db", write(tmp_path / "v.csv", 0, 400)
    retention = ("--retention", 4_096, "--store", store)
    said("run", file, "--metric", "x:mean,count", *retention, "--by", "shop")
    other = vestige("run", file, "--metric", "x:mean,sum", "--metric", "y:mean", *retention, "--by", "shop")
    assert other.exit_code == 2
    assert "other terms: x:sum and y:mean are new, x:count is missing now; open it with the terms" in other.stderr
    assert "another name (--stream) or another store" in other.stderr
    assert other.stdout == ""
    assert len(other.stderr.splitlines()) == 1
    assert "{" not in other.stderr
    private = vestige("run", file, "--metric", "x:mean", *retention, "--by", "shop", "--epsilon", 1, "--bound", 9)
    assert "other terms: metrics x:mean and x:count, now vestige.Private(" in private.stderr
    assert "policy=metrics x:mean)" in private.stderr


def test_new_keys_are_kept_as_the_keys_before(tmp_path: Path) -> None:
    """Else a store of private streams would get one that is not, or one without its limit, without a word."""
    store, file = tmp_path / "v.db", write(tmp_path / "v.csv", 0, 400)
    new = tmp_path / "w.csv"
    new.write_text(file.read_text().replace("a/b", "new").replace(",c,", ",newer,"))
    run, keyed = ("--metric", "x:mean", "--store", store), ("--by", "shop")
    said("run", file, *run, *keyed, "--epsilon", 1, "--bound", 20, "--retention", 4_096)
    plain = vestige("run", new, *run, *keyed, "--retention", 4_096)
    assert plain.exit_code == 2
    assert "was created with other terms: vestige.Private(" in plain.stderr
    assert list(json.loads(vestige("list", store, "--json").stdout)["streams"]) == ["a%2Fb", "c"]
    said("run", new, *run, *keyed, "--retention", 4_096, "--stream", "plain")
    assert (
        said(
            "run",
            new,
            "--store",
            store,
            "--metric",
            "x:mean",
            *keyed,
            "--epsilon",
            1,
            "--bound",
            20,
            "--retention",
            4_096,
        )["taken"]
        == 400
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--store", "two.db"), "its streams 'a' and 'b' have different terms, so there is no default; name one with"),
        (("--store", "twins.db"), "has several streams, 'a' and 'b' among them; name one with --stream"),
        (("--store", "two.db", "--stream", "c"), "no column is given"),
        (("--store", "two.db", "--stream", "a", "--half-life", 9), "--half-life needs --column or --metric; without,"),
        (("--store", "python.db"), "its streams were not made by vestige run"),
        (("--store", "none.db"), "no column is given"),
    ],
)
def test_terms_that_cannot_be_a_default(
    options: tuple[object, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(Path("v.csv"), 0, 300)
    for store, name, retention in (
        ("two.db", "a", 96),
        ("two.db", "b", 98),
        ("twins.db", "a", 96),
        ("twins.db", "b", 96),
    ):
        said("run", file, "--column", "x", "--retention", retention, "--store", store, "--stream", name)
    with open_store("python.db") as opened:
        Stream(Mean(), retention=96, store=opened.stream("main")).extend([1.0, 2.0])
    before = {path: path.read_bytes() for path in Path().iterdir()}
    result = vestige("run", file, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_run_may_have_the_terms_of_any_stream_of_its_keys() -> None:
    store, about = MemoryStore(), {"by": "shop", "columns": ["x"]}
    for name, retention in (("a", 96), ("b", 128)):
        Stream(Mean(), retention=retention, seed=0, store=store.stream(name, about=about)).extend(range(200))
    for retention in (96, 128):
        check_keyed(store, replace(Stream(Mean(), retention=retention).terms, about=about))
    with pytest.raises(StoreError, match="with --by, --stream gives new streams a prefix"):
        check_keyed(store, replace(Stream(Mean(), retention=160).terms, about=about))


@pytest.mark.parametrize("first", [(), ("--by", "shop"), ("--by", "shop", "--by", "who")])
@pytest.mark.parametrize("stream", [(), ("--stream", "x")])
def test_other_columns_of_keys_are_refused_like_other_terms(
    tmp_path: Path, first: tuple[str, ...], stream: tuple[str, ...]
) -> None:
    """They would count each row once more; under a name of their own that is wanted."""
    path, store = write(tmp_path / "a.csv", 0, 300), tmp_path / "a.db"
    what = ("run", path, "--column", "x", "--retention", 96, "--store", store)
    assert vestige(*what, *first, *stream).exit_code == 0
    for other in ((), ("--by", "shop"), ("--by", "shop", "--by", "who")):
        result = vestige(*what, *other, *stream)
        assert (result.exit_code == 0) == (other == first)
        assert other == first or "would count its rows in other streams once more" in result.stderr
        if other != first:
            assert vestige(*what, *other, "--stream", f"y{len(other)}").exit_code == 0
