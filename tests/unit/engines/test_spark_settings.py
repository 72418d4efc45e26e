"""The settings that dpsql starts Spark's process with."""

from __future__ import annotations

import pytest

from dpsql.engines.process_storage import available_memory
from dpsql.engines.spark import spark_connection


def test_the_heap_is_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in spark_connection._SPARK_SET_UP:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark_connection, "available_memory", lambda: 8 << 30)
    assert spark_connection._heap_setting() == {"spark.driver.memory": "2048m"}
    monkeypatch.setattr(spark_connection, "available_memory", lambda: 1 << 30)
    assert spark_connection._heap_setting() == {"spark.driver.memory": "1024m"}
    assert available_memory() > 0


@pytest.mark.parametrize("name", spark_connection._SPARK_SET_UP)
def test_what_the_environment_says_of_spark_holds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert spark_connection._heap_setting() == {}
