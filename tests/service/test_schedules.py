"""Whatever becomes of two services on one store, each row that is acknowledged is counted once, and none is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from schedules import Pair, run_schedules, serve_pair

from postgres import Database
from vestige.store import open_reader

_HOSTS = ("first_host", "second_host")


def check_postgres(database: Database, seeds: range, seconds: float, ends: float) -> None:
    """Run schedules on PostgreSQL, where two services may have the store open."""

    def fence(number: int) -> None:
        database.ask(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", _HOSTS[number]
        )

    first, second = (f"{database.address}&application_name={host}" for host in _HOSTS)
    with serve_pair((first, second), ("--keyring", str(database.keyring)), fence) as pair:
        run_schedules(pair, seeds, seconds, ends)
    assert database.read().verify() == ()


def check_sqlite(folder: Path, seeds: range, seconds: float, ends: float) -> None:
    """Run schedules on a file, which one service has at a time."""
    address = str(folder / "visits.db")
    with serve_pair((address, address), (), None) as pair:
        run_schedules(pair, seeds, seconds, ends)
    assert open_reader(address).verify() == ()


def test_two_services_on_postgres(database: Database) -> None:
    check_postgres(database, range(16), 0.8, 0.04)


def test_one_service_after_the_other_on_a_file(tmp_path: Path) -> None:
    check_sqlite(tmp_path, range(4), 0.8, 0.1)


@pytest.mark.slow(110)
@pytest.mark.parametrize("part", range(4))
def test_two_services_on_postgres_in_many_schedules(database: Database, part: int) -> None:
    check_postgres(database, range(100 + 40 * part, 140 + 40 * part), 1.2, 0.1)


@pytest.mark.slow(110)
def test_one_service_after_the_other_on_a_file_in_many_schedules(tmp_path: Path) -> None:
    check_sqlite(tmp_path, range(300, 340), 1.2, 0.2)


def test_a_second_service_on_a_file_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    address = str(tmp_path / "visits.db")
    with serve_pair((address, address), (), None) as pair:
        intruder: Pair = pair
        intruder.services[1].launch()
        assert intruder.services[1]._process is not None
        assert intruder.services[1]._process.wait(60.0) != 0
        run_schedules(pair, range(400, 401), 0.1, 0.0)
