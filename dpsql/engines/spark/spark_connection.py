"""Start Spark or connect to it: a new session with pinned settings and without logs.

Where Spark does not start in this process, it is said what is wrong with the Java that it finds.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dpsql.engines.process_storage import Scratch, available_memory
from dpsql.errors import OperationalError, PolicyError

OLDEST = 17
"""The version of Java from which on Spark 4 runs."""
_HINT = f"install Java {OLDEST} or newer and set JAVA_HOME to its folder"


def check_java() -> None:
    """Raise `OperationalError` if there is no Java, or one that is too old; for when Spark did not start."""
    home = os.environ.get("JAVA_HOME", "")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    if not program:
        raise OperationalError(f"Spark needs Java, and none was found: {_HINT}")
    if home and not Path(program).is_file():
        raise OperationalError(f"Spark needs Java, and JAVA_HOME names a folder without bin/java: {_HINT}")
    version = java_version(program)
    if version is not None and version < OLDEST:
        where = "JAVA_HOME" if home else "the PATH"
        raise OperationalError(f"Spark needs Java {OLDEST} or newer, and {where} has Java {version}: {_HINT}")


def java_version(program: str) -> int | None:
    """Return the major version of a Java; None if it does not say."""
    said = ""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603  the program that Spark starts
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
        said = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


_PINNED = {
    # The meaning of a statement must not depend on the cluster's configuration.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # In ANSI mode an expression can raise on a value, and the failure would disclose it. Without it, a value
    # that does not fit is NULL. Every type is written out, so neither mode converts implicitly.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # When two decimals are combined, a value that does not fit becomes NULL; else fractions are rounded.
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # The default raises on dates that files wrote in the Julian calendar.
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
    "spark.eventLog.enabled": "false",  # it would store statements, and plans with values
    "spark.log.level": "OFF",
    # What was run is held for a UI even where there is none: statements, plans, and the memory they take.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.maxPlanStringLength": "1000",
    # Each table that is broadcast takes a page; by default one of up to 64 MB, until Java collects it.
    "spark.buffer.pageSize": "2m",
}
_LISTENERS = ("spark.extraListeners", "spark.sql.queryExecutionListeners", "spark.plugins")
_SPARK_SET_UP = ("SPARK_DRIVER_MEMORY", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
_PROBE = (
    "SELECT CAST('2' AS DECIMAL(38,0)) = CAST('2.4' AS DECIMAL(9,2)) AS a, "
    "TRY_CAST('x' AS INT) + CAST('x' AS INT) AS b, try_validate_utf8(CAST(X'80' AS STRING)) AS c, "
    "current_timezone() AS d"
)
_TRIES = 4
_STARTING = threading.Lock()
_SCRATCH: list[Scratch] = []


def open_session(engine: str, on_error: Callable[[BaseException], None] = lambda problem: None) -> Any:  # noqa: ANN401  pyspark has two classes of sessions
    """Return a new session of the engine a policy names: `spark`, or `sc://..`.

    `on_error` is called with the error for which there is none: its text is for the owner alone.
    """
    try:
        import pyspark  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise PolicyError(
            "database.engine: the package pyspark is not installed", hint="pip install dpsql[spark]"
        ) from None
    # The command line hides pandas, without which pyspark refuses to connect.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "hides_pandas", False)]
    if "#" in engine:
        raise PolicyError("database.engine: the address contains a `#`")
    _disable_loggers()
    session: Any = None
    pinned = False
    try:
        with suppress_pyspark_warnings():
            session = _connect_remote(engine) if "://" in engine else _start()
            before = _try_briefly(session) if "://" in engine else []
            pinned = _pin_settings(session)
            if before:
                session.client.set_retry_policies(before)
    except Exception as problem:  # noqa: BLE001  its text may name hosts and paths
        on_error(problem)
    finally:
        if session is not None and not pinned and "://" in engine:
            end_session(session)
    if "://" not in engine and session is not None and _exposes_statements(session):
        raise PolicyError(
            "database.engine: the Spark in this process shows or stores statements and plans",
            hint="start it with spark.ui.enabled=false and spark.eventLog.enabled=false, without listeners",
        )
    if not pinned:
        if "://" not in engine and session is None:
            check_java()
        raise OperationalError("Spark cannot be started or reached as the policy says")
    return session


def _pin_settings(session: Any) -> bool:  # noqa: ANN401  two classes of sessions
    """Set every pinned setting, and return whether each holds; may raise any exception."""
    for name, value in _PINNED.items():
        session.conf.set(name, value)
    if any(session.conf.get(name) != value for name, value in _PINNED.items()):
        return False
    # Spark stores settings that it does not know, so their effect is tested.
    (row,) = session.sql(_PROBE).collect()
    return tuple(row) == (False, None, None, "UTC")


def _exposes_statements(session: Any) -> bool:  # noqa: ANN401  see above
    """Whether this process's Spark shows statements in a UI, log or listener, or has unknown settings."""
    with suppress(Exception):
        settings = session.sparkContext.getConf()
        return (
            settings.get("spark.ui.enabled", "true") != "false"
            or settings.get("spark.eventLog.enabled", "false") != "false"
            or any(settings.get(name, "") for name in _LISTENERS)
        )
    return True


def _disable_loggers() -> None:
    """Disable the loggers of pyspark, which print statements, plans and Spark's messages."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  an extra

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging"):
        PySparkLogger.getLogger(name).disabled = True
    for name in ("py4j", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).disabled = True
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is not py4j's, which writes there when Spark's process has gone."""
    return "py4j" not in Path(record.pathname).parts


def _connect_remote(address: str) -> Any:  # noqa: ANN401  see above
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  an extra

    return SparkSession.builder.remote(address).create()


def end_session(session: Any) -> None:  # noqa: ANN401  see above
    """End a session over Connect, also one whose server has gone."""
    with suppress(Exception), suppress_pyspark_warnings():
        _try_briefly(session)
        session.stop()


def _try_briefly(session: Any) -> list[Any]:  # noqa: ANN401  see above
    """Give up within seconds on a server that cannot be reached; return the policies that held before.

    By default pyspark tries for ten minutes, also as a session ends.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415  an extra

    before: list[Any] = session.client.get_retry_policies()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES)])
    return before


def _start() -> Any:  # noqa: ANN401  see above
    from pyspark import SparkContext  # noqa: PLC0415  an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415  an extra

    with _STARTING:
        if SparkContext._active_spark_context is not None:  # noqa: SLF001  pyspark has no public method for it
            session = SparkSession.builder.getOrCreate()
        else:
            builder = SparkSession.builder
            for name, value in {**_AT_START, **_scratch_folders(), **_heap_setting()}.items():
                builder = builder.config(name, value)
            with _discard_output():
                session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # it logs statements and values
    return session.newSession()


def _scratch_folders() -> dict[str, str]:
    """Return settings that put Spark's spilled rows and its warehouse into a private folder.

    The folder is removed when the process ends: one Spark serves all sessions.
    """
    _SCRATCH.append(Scratch())
    folder = _SCRATCH[-1].path
    return {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}


def _heap_setting() -> dict[str, str]:
    """Return the setting of the Java heap: a quarter of the memory, unless the environment sets Spark up.

    A quarter is Java's own default. Spark's is 1 GB, in which a few long texts make a statement fail.
    """
    if any(name in os.environ for name in _SPARK_SET_UP):
        return {}
    return {"spark.driver.memory": f"{max(available_memory() // 4 >> 20, 1024)}m"}


@contextmanager
def _discard_output() -> Iterator[None]:
    """Start Spark's process with its output discarded: it inherits stdout and stderr for its whole life."""
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
def suppress_pyspark_warnings() -> Iterator[None]:
    """Suppress pyspark's warnings about versions of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
