"""A Redis Stream through a consumer group: counted once, acknowledged after the commit, never lost unsaid."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reading import read_streams
from redis_server import RedisServer
from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.cli import command
from vestige.errors import ParameterError, SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import IfReplaced
from vestige.sources.columns import Columns
from vestige.sources.redis import RedisSource
from vestige.sources.redis import source as module
from vestige.sources.redis.address import RedisAddress
from vestige.sources.redis.group import acknowledge_entries
from vestige.sources.redis.link import Link
from vestige.sources.redis.positions import RedisPosition
from vestige.store import Store

PATIENCE = 60.0
Start = Callable[..., RedisServer]


class Run:
    """Runs over a stream into one store, each as a command would do it."""

    def __init__(self, server: RedisServer, path: Path, *, by: bool = False, trim: bool = False) -> None:
        self.server, self.path, self.by, self.trim = server, path, by, trim
        self.said: list[str] = []

    def __call__(self, *, if_replaced: IfReplaced = "refuse", stream: str = "s", option: str = "") -> Ingest:
        with open_store(self.path) as store:
            ingest = self.make(store, if_replaced, stream, option)
            ingest.run()
            return ingest

    def make(
        self,
        store: Store,
        if_replaced: IfReplaced = "refuse",
        stream: str = "s",
        option: str = "",
        *,
        follow: bool = False,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Ingest:
        columns = Columns(("v",), None, None, ("k",) if self.by else (), None)
        address = RedisAddress.parse(self.server.address(stream) + option)
        source = RedisSource(address, columns, follow=follow, trim=self.trim, warn=self.said.append)
        if self.by:
            streams = KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
            return Ingest(source, streams, StreamNames("k"), store, if_replaced, is_stopped=is_stopped)
        return Ingest(
            source,
            lambda name: Stream(Mean(), retention=96, seed=1, store=store.stream(name)),
            store=store,
            if_replaced=if_replaced,
            is_stopped=is_stopped,
        )

    def count(self) -> int:
        with open_store(self.path) as store:
            return store.count_arrived()[0]


@pytest.fixture(params=[False, True], ids=["single", "by key"])
def run(redis_server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    return Run(redis_server, tmp_path / "s.db", by=request.param)


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"v": i, "k": f"key {i % 3}"} for i in range(start, stop)]


def test_each_entry_is_counted_once_over_several_runs(run: Run) -> None:
    run.server.add("s", rows(0, 250))
    assert run().taken == 250
    assert run().taken == 0
    run.server.add("s", rows(250, 300))
    assert run().taken == 50
    assert run.count() == 300
    group = run.server.group("s")
    assert (group["pending"], group["lag"], group["entries-read"]) == (0, 0, 300)
    assert run.said == []


def test_entries_are_acknowledged_only_when_they_are_in_the_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.server.add("s", rows(0, 90))
    seen = []

    def look(link: Link, stream: str, group: str, last: tuple[int, int]) -> int:
        arrived = sum(state.clock.t for _, state in read_streams(run.path).values())
        seen.append((run.server.group("s")["pending"], arrived))
        return acknowledge_entries(link, stream, group, last)

    monkeypatch.setattr(module, "acknowledge_entries", look)
    run()
    assert seen == [(90, 90)]
    assert run.server.group("s")["pending"] == 0


def test_what_a_dead_worker_left_is_taken_once_or_only_acknowledged(run: Run) -> None:
    run.server.add("s", rows(0, 30))
    run()
    name = run.server.group("s")["name"]
    run.server.call("XGROUP", "SETID", "s", name, "0")
    assert len(run.server.call("XREADGROUP", "GROUP", name, "dead", "COUNT", 30, "STREAMS", "s", ">")[0][1]) == 30
    run.server.add("s", rows(30, 50))
    run.server.call("XREADGROUP", "GROUP", name, "dead", "COUNT", 7, "STREAMS", "s", ">")
    assert run.server.group("s")["pending"] == 37
    assert run().taken == 20
    assert run.count() == 50
    assert (run.server.group("s")["pending"], run.server.group("s")["lag"]) == (0, 0)


def test_another_reader_of_the_group_is_said_and_takes_nothing_away(run: Run) -> None:
    run.server.add("s", rows(0, 30))
    with open_store(run.path) as store:
        stopped: list[int] = []
        ingest = run.make(store, follow=True, is_stopped=lambda: bool(stopped))

        def disturb(taken: int, _: int) -> None:
            if taken == 30 and not run.said:
                run.server.add("s", rows(30, 40))
                run.server.call("XREADGROUP", "GROUP", run.server.group("s")["name"], "b", "STREAMS", "s", ">")
            if taken == 40:
                stopped.append(1)

        ingest.run(disturb)
        assert ingest.taken == 40
    assert len([text for text in run.said if "somebody else reads with the group" in text]) == 1
    assert run.server.group("s")["pending"] == 0


def test_entries_that_are_skipped_are_counted_said_and_acknowledged(run: Run) -> None:
    run.server.add("s", [*rows(0, 5), {"v": "secret", "k": "a"}, {"k": "a"}])
    ingest = run()
    assert (ingest.taken, ingest.skipped) == (5, 2)
    assert len(run.said) == 1
    assert "field 'v' of an entry cannot be read" in run.said[0]
    assert "secret" not in run.said[0]
    assert run.server.group("s")["pending"] == 0
    assert run().skipped == 0


def test_an_entry_that_a_stream_refuses_names_its_remedy(redis_server: RedisServer, tmp_path: Path) -> None:
    columns, said = Columns(("v",), "at", None, (), None), list[str]()
    ids = redis_server.add(
        "s", [{"v": 1, "at": "2024-05-31"}, {"v": 2, "at": "2999-01-01"}, {"v": 3, "at": "2024-06-01"}]
    )
    address = RedisAddress.parse(redis_server.address("s"))

    def attempt() -> Ingest:
        with open_store(tmp_path / "s.db") as store:
            source = RedisSource(address, columns, follow=False, warn=said.append)
            age = timedelta(days=30_000)
            ingest = Ingest(
                source,
                lambda name: Stream(Mean(), retention=96, max_age=age, store=store.stream(name)),
                store=store,
                max_age=age,
            )
            ingest.run()
            return ingest

    with pytest.raises(SourceError, match=r"row 2.*\(XDEL\)"):
        attempt()
    redis_server.call("XDEL", "s", ids[1])
    assert attempt().taken == 2


@pytest.mark.parametrize("by", [False, True])
def test_trim_removes_what_is_committed_and_no_other_group_needs(
    redis_server: RedisServer, tmp_path: Path, by: bool
) -> None:
    run = Run(redis_server, tmp_path / "s.db", by=by, trim=True)
    ids = redis_server.add("s", rows(0, 20))
    redis_server.call("XGROUP", "CREATE", "s", "other", 0)
    redis_server.call("XREADGROUP", "GROUP", "other", "c", "COUNT", 8, "STREAMS", "s", ">")
    redis_server.call("XACK", "s", "other", *ids[:5])
    assert run().taken == 20
    left = [entry[0] for entry in redis_server.call("XRANGE", "s", "-", "+")]
    assert left == ids[5:]  # 5 to 7 are delivered to the other group and not acknowledged, the rest is not delivered
    assert len([text for text in run.said if "the group other has not read" in text]) == 1
    redis_server.call("XREADGROUP", "GROUP", "other", "c", "STREAMS", "s", ">")
    redis_server.call("XACK", "s", "other", *ids)
    more = redis_server.add("s", rows(20, 21))
    redis_server.call("XGROUP", "SETID", "s", "other", "$")
    assert run().taken == 1
    assert redis_server.call("XLEN", "s") == 0
    last = redis_server.add("s", rows(21, 22))
    redis_server.call("XGROUP", "DESTROY", "s", "other")
    assert run().taken == 1
    assert last > more
    assert run.count() == 22


def test_nothing_is_trimmed_unless_asked(run: Run) -> None:
    run.server.add("s", rows(0, 20))
    run()
    assert run.server.call("XLEN", "s") == 20


def test_entries_that_were_removed_unread_are_said(run: Run) -> None:
    ids = run.server.add("s", rows(0, 10))
    run.server.call("XTRIM", "s", "MAXLEN", 7)  # before the first run, which knows of no others
    assert run().taken == 7
    assert run.said == []
    run.server.add("s", rows(10, 20))
    run.server.call("XTRIM", "s", "MAXLEN", 4)
    assert run().taken == 4
    (text,) = run.said
    assert "6 entries were removed from the stream before being read here" in text
    run.said.clear()
    ids = run.server.add("s", rows(20, 23))
    run.server.call("XDEL", "s", ids[1])
    assert run().taken == 2
    assert "an entry was removed" in run.said[0]


@pytest.mark.parametrize("loss", ["gone", "ids", "count", "group"])
def test_a_server_that_lost_data_is_noticed(run: Run, loss: str) -> None:
    run.server.add("s", rows(0, 20))
    run()
    if loss == "group":
        run.server.call("XGROUP", "DESTROY", "s", run.server.group("s")["name"])
        expected = "is not there"
    else:
        run.server.call("FLUSHALL")
        expected = "is not there"
    if loss == "ids":
        run.server.call("XADD", "s", "1-1", "v", 1, "k", "a")
        expected = "its last id is 1-1"
    if loss == "count":
        run.server.add("s", rows(0, 3))
        expected = "3 entries were added to it, and 20 were read"
    with pytest.raises(SourceError, match=expected) as caught:
        run()
    assert "--if-replaced continue" in str(caught.value)
    assert run.count() == 20
    there = {"gone": 0, "ids": 1, "count": 3, "group": 20}[loss]
    fresh = {"gone": 0, "ids": 0, "count": 3, "group": 0}[loss]
    assert run(if_replaced="continue").taken == fresh
    run.server.add("s", rows(0, 4))
    assert run().taken == 4
    run.server.call("FLUSHALL")
    run.server.add("s", rows(0, there + 1))
    assert run(if_replaced="restart").taken == there + 1
    assert run().taken == 0


def test_a_stream_that_vanishes_during_a_run_ends_it(run: Run) -> None:
    run.server.add("s", rows(0, 20))
    with open_store(run.path) as store:
        ingest = run.make(store, follow=True)
        with pytest.raises(SourceError, match="The server may have lost its data"):
            ingest.run(lambda taken, _: run.server.call("FLUSHALL") if taken else None)
    assert run.count() == 20


def test_a_named_group_that_was_read_before_is_not_begun_anew_unasked(run: Run) -> None:
    run.server.add("s", rows(0, 20))
    run.server.call("XGROUP", "CREATE", "s", "mine", "$")
    run.server.add("s", rows(20, 25))
    with pytest.raises(SourceError, match="its group mine was read up to"):
        run(option="?group=mine")
    assert run(option="?group=mine", if_replaced="continue").taken == 5
    assert run(option="?group=mine").taken == 0


def test_the_same_stream_under_another_address_is_said(run: Run) -> None:
    run.server.add("s", rows(0, 5))
    run()
    with open_store(run.path) as store:
        ingest = run.make(store)
        address = RedisAddress.parse(run.server.address("s").replace("127.0.0.1", "localhost"))
        ingest.follow(RedisSource(address, ingest.source.columns, follow=False, warn=run.said.append))  # type: ignore[attr-defined]
        ingest.run()
    assert "If that is the same server, stop this run" in run.said[0]


def test_a_server_that_restarts_is_waited_for(tmp_path: Path, start_redis: Start) -> None:
    server = start_redis(appendonly="yes", appendfsync="always")
    run = Run(server, tmp_path / "s.db", by=True)
    with open_store(run.path) as store:
        target = 0
        ingest = run.make(store, follow=True, is_stopped=lambda: ingest.taken == 5 * 40)
        failed: list[Exception] = []

        def read() -> None:
            try:
                ingest.run()
            except Exception as problem:
                failed.append(problem)

        thread = threading.Thread(target=read)
        thread.start()
        for turn in range(5):
            server.add("s", rows(target, target + 40))
            target += 40
            until = time.monotonic() + PATIENCE
            while not ingest.taken and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(0.05 * turn)
            server.restart(signal.SIGKILL)
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not failed
        assert ingest.taken == 200
    assert any("does not answer" in text for text in run.said)
    assert any("connected again" in text for text in run.said)
    assert run.count() == 200
    assert run().taken == 0
    assert server.group("s")["pending"] == 0


def test_without_a_store_entries_are_read_without_a_group(redis_server: RedisServer) -> None:
    redis_server.add("s", rows(0, 20))
    result = vestige("run", redis_server.address("s"), "--column", "v", "--retention", "96", "--no-follow", "--json")
    assert result.exit_code == 0, result.output
    assert '"t": 20' in result.stdout
    assert redis_server.call("XINFO", "GROUPS", "s") == []


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, None),
        ({"appendonly": "yes"}, r"on its disk \(AOF\).*BGREWRITEAOF"),
        ({"save": "60 1"}, r"on its disk \(RDB\).*BGSAVE"),
        ({"rename-command": "CONFIG hidden"}, "does not say whether it keeps entries on its disk"),
    ],
    ids=["nothing", "AOF", "RDB", "unknown"],
)
def test_what_the_server_keeps_on_its_disk_is_said_at_the_start(
    settings: dict[str, str], said: str | None, start_redis: Start
) -> None:
    server = start_redis(**settings)
    server.add("s", rows(0, 3))
    result = vestige("run", server.address("s"), "--column", "v", "--retention", "96", "--no-follow")
    assert result.exit_code == 0, result.output
    if said is None:
        assert result.stderr == ""
    else:
        assert re.search(said, result.stderr)


def test_no_message_shows_the_password(start_redis: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_redis(requirepass="s3cret-word")
    server.add("s", [{"v": 1}])
    options = ["--column", "v", "--retention", "96", "--no-follow"]
    refused = vestige("run", server.address("s", ":wr0ng-word@"), *options)
    wanted = vestige("run", server.address("s"), *options)
    assert (refused.exit_code, wanted.exit_code) == (2, 2)
    assert "refuses the user or the password" in refused.output
    assert "wants a password; put it into VESTIGE_REDIS_PASSWORD" in wanted.output
    good = vestige("run", server.address("s", ":s3cret-word@"), *options)
    assert good.exit_code == 0, good.output
    monkeypatch.setenv("VESTIGE_REDIS_PASSWORD", "s3cret-word")
    assert vestige("run", server.address("s"), *options).exit_code == 0
    server.stop()
    gone = vestige("run", server.address("s", ":s3cret-word@"), *options)
    assert "no server answers there" in gone.output
    for result in (refused, good, gone):
        assert "word@" not in result.output
        assert "s3cret" not in result.output
        assert "wr0ng" not in result.output


def test_a_key_that_is_not_a_stream_is_refused(redis_server: RedisServer) -> None:
    redis_server.call("SET", "s", "text")
    result = vestige("run", redis_server.address("s"), "--column", "v", "--retention", "96", "--no-follow")
    assert result.exit_code == 2
    assert "a key of this name that is not a stream" in result.output


@pytest.mark.parametrize(
    "address",
    [
        "redis://host",
        "redis://host/0",
        "redis://host/x/s",
        "redis://:pass@/0/s",
        "redis://host:pass/0/s",
        "redis://host/0/s?grop=a",
        "redis://host/0/s?group=a b",
        "redis://host/0/s#x",
    ],
)
def test_other_addresses_are_refused_without_being_repeated(address: str) -> None:
    with pytest.raises(ParameterError) as caught:
        RedisAddress.parse(address)
    assert "pass/" not in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_parts_of_an_address() -> None:
    address = RedisAddress.parse("rediss://ada:p%40ss@queue.example.org:1/2/a%2Fb?group=g&ca=/etc/ca.pem")
    assert (address.user, address.password, address.port, address.database) == ("ada", "p@ss", 1, 2)
    assert (address.stream, address.group, address.authority, address.is_encrypted) == ("a/b", "g", "/etc/ca.pem", True)
    assert address.name == "rediss://queue.example.org:1/2/a/b"
    assert "p@ss" not in repr(address)


def test_positions_compare_as_ids_do_and_other_bytes_are_refused() -> None:
    made = [
        RedisPosition(entry, 3, b"mark", generation) for generation in (0, 1) for entry in ((1, 5), (2, 0), (10, 0))
    ]
    assert [RedisPosition.decode(each.encode()) for each in made] == made
    assert sorted(made, key=lambda each: each.order) == made
    with pytest.raises(ParameterError, match="not one of a Redis Stream"):
        RedisPosition.decode(b"other")
