"""Start Spark, or reach it: a session of our own, settings pinned, its logs kept away from everybody."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dpsql.errors import OperationalError, PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["hushed", "open_session"]

_PINNED = {
    # What a text of ours means must not depend on the cluster's habits.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # In ANSI mode an expression can raise on a value, and whether it did would be seen; without it, what
    # does not fit is NULL. Every type is written out, so nothing is converted on its own in either mode.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Old calendars: the default raises on the first ancient date.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
_AT_START = {
    "spark.app.name": "dpsql",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",  # it would keep statements, and plans with values
    "spark.log.level": "OFF",
}
_STARTING = threading.Lock()


def open_session(engine: str) -> Any:  # noqa: ANN401  pyspark has two classes of sessions
    """Return a new session of the engine a policy names: `spark`, or `sc://..`."""
    try:
        import pyspark  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise PolicyError(
            "database.engine: Spark is reached by a package that is not installed",
            hint="pip install dpsql[spark]",
        ) from None
    session: Any = None
    _hush_loggers()
    with suppress(Exception), hushed():
        session = _connect(engine) if "://" in engine else _start()
        for name, value in _PINNED.items():
            session.conf.set(name, value)
    if session is None:
        raise OperationalError("Spark cannot be started or reached as the policy says")
    return session


def _hush_loggers() -> None:
    """Disable the loggers of pyspark, which print statements, plans and Spark's messages."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  an extra

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging"):
        PySparkLogger.getLogger(name).disabled = True
    for name in ("py4j", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).disabled = True


def _connect(address: str) -> Any:  # noqa: ANN401  see above
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  an extra

    return SparkSession.builder.remote(address).create()


def _start() -> Any:  # noqa: ANN401  see above
    from pyspark import SparkContext  # noqa: PLC0415  an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415  an extra

    with _STARTING:
        if SparkContext._active_spark_context is not None:  # noqa: SLF001  there is no other way to ask
            session = SparkSession.builder.getOrCreate()
        else:
            builder = SparkSession.builder
            for name, value in _AT_START.items():
                builder = builder.config(name, value)
            with _silent():
                session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # it logs statements and values
    return session.newSession()


@contextmanager
def _silent() -> Iterator[None]:
    """Let Spark's own process inherit no output: what it writes there for years is decided now."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(nowhere)


@contextmanager
def hushed() -> Iterator[None]:
    """Keep pyspark's advice about other packages' versions away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
