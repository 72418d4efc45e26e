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
from pathlib import Path

import pytest

from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private

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
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert server.poll() is None, "the Connect server ended"
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("the Connect server does not answer")


@pytest.mark.spark
def test_a_catalog_table_is_counted_over_connect(address: str, tmp_path: Path) -> None:
    from dpsql.engines.spark.connection import open_session

    owner = open_session(address)
    owner.sql("CREATE DATABASE shop").collect()
    page = "CASE id % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END"
    rows = f"SELECT id % 7 AS user_id, {page} AS page FROM range(30)"
    owner.sql(f"CREATE TABLE shop.visits USING parquet AS {rows}").collect()
    owner.sql("CREATE VIEW shop.mixed AS SELECT * FROM shop.visits").collect()
    (tmp_path / "dpsql.toml").write_text(POLICY.format(engine=address), "utf-8")
    session = Session(load(tmp_path / "dpsql.toml"))
    prepared = private(
        session.prepare(
            "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id > 2 "
            "GROUP BY page ORDER BY n DESC LIMIT 2"
        )
    )
    counts = engine_of(session).count(prepared.plan.compiled)
    assert dict(zip(counts.keys.column("k0").to_pylist(), counts.n[0].tolist(), strict=True)) == {
        "a": 4,
        "b": 4,
        "zz": 0,
    }
    release = session.execute(prepared).release
    assert release is not None
    assert release.rows.num_rows == 2
    with pytest.raises(QueryRefused):
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(page, 'a')")
    asked = "SELECT x.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (VALUES {}) AS x(page) ON v.page = x.page GROUP BY x.page ORDER BY n DESC LIMIT 1"
    two = [private(session.prepare(asked.format(keys))) for keys in ("('a'), ('zz')", "('b'), ('yy')")]
    plans = [prepared.plan.compiled for prepared in two]
    # The public rows of both go by one name; over Connect a name is looked up when the statement runs.
    # Spark gives rows in an order of its own; answers are sorted here, by `engines/ordering.py`.
    assert [sorted(engine_of(session).count(plans[i]).keys.column("k0").to_pylist()) for i in (0, 1, 0)] == [
        ["a", "zz"],
        ["b", "yy"],
        ["a", "zz"],
    ]
    session.close()
    text = (
        POLICY.format(engine=address)
        .replace("unit =", 'unique = [["page"]]\nunit =')
        .replace("ledger.", "fact.")
    )
    (tmp_path / "fact.toml").write_text(text, "utf-8")
    with pytest.raises(PolicyError) as caught:
        Session(load(tmp_path / "fact.toml"))
    assert "data_version" in (caught.value.hint or "")
    (tmp_path / "fact.toml").write_text(f'data_version = "1"\n{text}', "utf-8")
    vouched = Session(load(tmp_path / "fact.toml"))
    try:
        with pytest.raises(OperationalError) as failed:
            vouched.run("SELECT COUNT(*) AS n FROM visits WHERE page = 'a'")
    finally:
        vouched.close()
    assert "dpsql check" in str(failed.value)
    text = POLICY.format(engine=address).replace("shop.visits", "shop.mixed").replace("ledger.", "other.")
    (tmp_path / "view.toml").write_text(text, "utf-8")
    with pytest.raises(PolicyError) as caught:
        Session(load(tmp_path / "view.toml"))
    assert "views" in (caught.value.hint or "")
    owner.stop()
