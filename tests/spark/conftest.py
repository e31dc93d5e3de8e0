"""A session of Spark that the tests of a process share, with the settings that `configure` sets."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MISSING = "Spark is not installed here; make test-spark runs this in an environment of its own"
NO_JAVA = "Java is not installed (java is not found); install the package default-jre-headless to run this"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Spark and its packages warn of is not ours to mend."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores of this machine."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip(MISSING)
    if shutil.which("java") is None:
        pytest.skip(NO_JAVA)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from vestige.spark import configure  # noqa: PLC0415

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = configure(SparkSession.builder.master("local[2]").appName("vestige"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
