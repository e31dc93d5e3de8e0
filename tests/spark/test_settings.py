"""Settings on which erasure depends are set, and each other value is refused with its name."""

from __future__ import annotations

import pytest

from vestige.errors import ParameterError
from vestige.spark.settings import CHANGING, FIXED, check_settings, check_task_settings, configure


class Builder:
    """What `configure` needs of the builder of a session."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, name: str, value: str) -> None:
        self.settings[name] = value


def test_all_that_is_asserted_is_set() -> None:
    builder = Builder()
    assert configure(builder) is builder
    assert builder.settings.items() >= (FIXED | CHANGING).items()
    check_task_settings(builder.settings.get)


@pytest.mark.parametrize("name", CHANGING)
def test_another_value_is_refused_in_a_task(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"{name}=false must be "):
        check_task_settings((CHANGING | {name: "false"}).get)


@pytest.mark.parametrize("name", [*FIXED, *CHANGING])
def test_a_session_without_a_setting_is_refused(name: str) -> None:
    settings = FIXED | CHANGING | {name: "other"}

    class Settings:
        def getAll(self) -> list[tuple[str, str]]:  # noqa: N802
            return list(settings.items())

        def getConf(self) -> Settings:  # noqa: N802
            return self

        def get(self, setting: str, _: None) -> str:
            return settings[setting]

    class Session:
        sparkContext = conf = Settings()  # noqa: N815

    with pytest.raises(ParameterError, match=rf"{name}=other must be "):
        check_settings(Session())
