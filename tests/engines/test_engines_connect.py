# ruff: noqa: E501  statements read better unbroken
"""Spark Connect: the same engine by its address, over a server of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of

POLICY = """
[database]
engine = "{engine}"
[budget]
epsilon = 10
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "shop.visits"
unit = "user_id"
not_null = ["page"]
[tables.visits.domain]
page = ["a", "b", "zz"]
"""
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    import pyspark

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    home = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "spark.connect.grpc.binding.port": port,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.shuffle.partitions": 1,
        }
        command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--class", SERVER]
        command += [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
        server = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "SPARK_HOME": str(home)},
        )
        try:
            _wait(port, server)
            yield f"sc://127.0.0.1:{port}"
        finally:
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(60)
            return


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert server.poll() is None, "the Connect server ended"
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("the Connect server does not answer")


@pytest.fixture(scope="module")
def shop(address: str) -> Iterator[None]:
    """A table and a view of it in the server's catalog.

    Every session ends before the server: pyspark would try to reach it for ten minutes as the process ends.
    """
    from dpsql.engines.spark.spark_connection import open_session

    owner: Any = open_session(address)
    try:
        owner.sql("CREATE DATABASE shop").collect()
        page = "CASE id % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END"
        rows = f"SELECT id % 7 AS user_id, {page} AS page FROM range(30)"
        owner.sql(f"CREATE TABLE shop.visits USING parquet AS {rows}").collect()
        owner.sql("CREATE VIEW shop.mixed AS SELECT * FROM shop.visits").collect()
        yield
    finally:
        owner.stop()


@pytest.fixture
def policy(address: str, shop: None, tmp_path: Path) -> Path:
    written = tmp_path / "dpsql.toml"
    written.write_text(POLICY.format(engine=address), "utf-8")
    return written


@pytest.mark.spark
def test_a_catalog_table_is_counted_over_connect(policy: Path) -> None:
    with closing(Session(load(policy))) as session:
        prepared = private(
            session.prepare(
                "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id > 2 "
                "GROUP BY page ORDER BY n DESC LIMIT 2"
            )
        )
        counts = engine_of(session).count(prepared.plan.compiled)
        assert dict(
            zip(exact_of(counts).keys.column("k0").to_pylist(), exact_of(counts).n[0].tolist(), strict=True)
        ) == {
            "a": 4,
            "b": 4,
            "zz": 0,
        }
        release = session.execute(prepared).release
        assert release is not None
        assert release.rows.num_rows == 2
        with pytest.raises(QueryRefused):
            session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(page, 'a')")


@pytest.mark.spark
def test_public_rows_of_two_statements_are_kept_apart_over_connect(policy: Path) -> None:
    """They go by one name, and over Connect a name is looked up when the statement runs."""
    asked = "SELECT x.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (VALUES {}) AS x(page) ON v.page = x.page GROUP BY x.page ORDER BY n DESC LIMIT 1"
    with closing(Session(load(policy))) as session:
        two = [private(session.prepare(asked.format(keys))) for keys in ("('a'), ('zz')", "('b'), ('zz')")]
        plans = [prepared.plan.compiled for prepared in two]
        found = [
            exact_of(engine_of(session).count(plans[i])).keys.column("k0").to_pylist() for i in (0, 1, 0)
        ]
    # Spark gives rows in an order of its own; answers are sorted by `engines/ordering.py`.
    assert [sorted(keys) for keys in found] == [["a", "zz"], ["b", "zz"], ["a", "zz"]]


@pytest.mark.spark
def test_a_fact_about_a_catalog_table_needs_a_version(policy: Path) -> None:
    text = policy.read_text("utf-8").replace("unit =", 'unique = [["page"]]\nunit =')
    policy.write_text(text, "utf-8")
    with pytest.raises(PolicyError) as caught:
        Session(load(policy))
    assert "data_version" in (caught.value.hint or "")
    policy.write_text(f'data_version = "1"\n{text}', "utf-8")
    with (
        closing(Session(load(policy))) as vouched,
        pytest.raises(OperationalError) as failed,
    ):
        vouched.run("SELECT COUNT(*) AS n FROM visits WHERE page = 'a'")
    assert "dpsql check" in str(failed.value)


@pytest.mark.spark
def test_a_view_is_no_source_over_connect(policy: Path) -> None:
    policy.write_text(policy.read_text("utf-8").replace("shop.visits", "shop.mixed"), "utf-8")
    with pytest.raises(PolicyError) as caught:
        Session(load(policy))
    assert "stable = true" in (caught.value.hint or "")


@pytest.mark.spark
def test_a_server_that_is_not_there_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a session begins nor as it ends: pyspark itself tries 15 times, which takes ten minutes."""
    from pyspark.sql.connect.client.retries import Retrying

    from dpsql.engines.spark.spark_connection import open_session

    before, waits = Retrying._wait, []

    def wait(retrying: Retrying) -> None:
        waits.append(retrying)
        if len(waits) > 12:
            raise KeyboardInterrupt
        before(retrying)

    monkeypatch.setattr(Retrying, "_wait", wait)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen
        with pytest.raises(OperationalError, match="cannot be started or reached"):
            open_session(f"sc://127.0.0.1:{unused.getsockname()[1]}")
    assert waits
