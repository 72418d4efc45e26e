"""The settings of every DuckDB database, the lock that prevents changes to them, cursors, tested versions.

Cursors: each statement runs on a cursor of its own, which can be interrupted alone. A cursor has the
database's settings, not those that another cursor or connection set for itself, so settings are pinned
globally.

Tested versions: what the guarantee reads of each version that was tested is data: the files of `tested/` are
made by ``python -m tests.engine_drift --write`` and reviewed as a diff. The guarantee reads: the words of
bound plans; which functions these call, with their signatures and volatility; the settings that give values
and statements their meaning; the optimizers, of which some would move what may fail out of its TRY.

Another version is told to the owner and gets nothing on trust: its unknown optimizers are switched off, a
statement is refused whose plan has an unknown word or a function that is gone or volatile, and where a
setting that is relied on is missing or has another value, no data is opened.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.analysis import Vocabulary
from dpsql.engines.worker import run_in_thread
from dpsql.errors import EngineNotTested
from dpsql.kernel.charged_work import INTERRUPTED
from dpsql.lazy_dataclass import dataclass

_MOST_LINES = 4
_LONGEST = 600
_ADVICE = ("Possible fixes", "Possible solutions", "LINE ")
"""What follows is about options of the engine that dpsql sets, or its statement."""


def duckdb_words(problem: duckdb.Error) -> str:
    r"""Return what happened in the engine's words, without its advice about options.

    >>> duckdb_words(duckdb.Error("CSV Error on Line: 59\nOriginal Line: 57,p1,x\nPossible fixes:\n* .."))
    'CSV Error on Line: 59\nOriginal Line: 57,p1,x'
    """
    lines: list[str] = []
    for line in str(problem).strip().split("\n"):
        if line.startswith(_ADVICE) or len(lines) == _MOST_LINES:
            break
        if line.strip():
            lines.append(line.rstrip())
    return "\n".join(lines)[:_LONGEST]


_TESTED = Path(__file__).with_name("tested")

_AT_START: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    # The meaning of a value must not depend on the machine or on the owner's configuration.
    "default_collation": "",
    "ieee_floating_point_ops": True,  # false makes sqrt, ln and / raise
    "error_on_division_by_zero": False,
    "integer_division": False,
    "scalar_subquery_error_on_multiple_rows": True,
    "default_null_order": "NULLS_LAST",
    "default_order": "ASCENDING",
    "order_by_non_integer_literal": False,
    "regex_match_operator_semantics": "partial",
    "max_execution_time": 0,  # a failure by the engine's timeout would depend on data
}

_PINNED = {  # these are taken by a database that is open
    "TimeZone": "'UTC'",
    "Calendar": "'gregorian'",
    "enable_logging": "false",
}

RELIED_ON = (
    *_AT_START,
    *_PINNED,
    # The meaning of values, and of statements.
    *("disable_timestamptz_casts", "legacy_disable_null_type", "dialect_compatibility_mode"),
    *("current_dialect", "preserve_insertion_order", "binary_as_string", "active_grammar_extensions"),
    *("schema", "search_path"),
    # What may run, be read or be written.
    *("allowed_configs", "enable_profiling", "profiling_output", "profile_output", "log_query_path"),
    *("operator_memory_limit", "file_search_path", "enable_optimizer", "enable_progress_bar"),
    # How results and errors are written.
    *("errors_as_json", "arrow_lossless_conversion", "arrow_large_buffer_size", "arrow_output_list_view"),
)
"""Settings whose values the guarantee relies on; `connect` sets some, others have the engine's default."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the guarantee reads of one version of the engine."""

    words: Mapping[str, tuple[str, ...]]
    """The words of bound plans: the fields of `Vocabulary` but for the functions."""
    functions: Mapping[str, str]
    """What bound plans call: volatility and signatures; empty for what is no named function."""
    relied_on: Mapping[str, str]
    """The value of each setting that is relied on, in a database that `settings` opened."""
    settings: Mapping[str, str]
    """All settings that the engine lists: scope and type."""
    optimizers: tuple[str, ...]


@cache
def tested_versions() -> dict[str, EngineFacts]:
    """Return the facts of each tested version, the oldest version first."""
    files = sorted(_TESTED.glob("*.json"), key=lambda path: tuple(map(int, path.stem.split("."))))
    return {path.stem: EngineFacts(**json.loads(path.read_text("utf-8"))) for path in files}


def installed_version() -> str:
    """Return the version of DuckDB that is installed."""
    return str(duckdb.__version__)


def untested_notice() -> str:
    """Return a sentence that the installed version was not tested, and what to install; empty if it was."""
    versions = list(tested_versions())
    if installed_version() in versions:
        return ""
    listed = " and ".join(filter(None, (", ".join(versions[:-1]), versions[-1])))
    return (
        f"DuckDB {installed_version()} is installed, and dpsql was tested with {listed}: "
        f"pip install 'duckdb=={versions[-1]}'"
    )


def read_vocabulary(connection: duckdb.DuckDBPyConnection) -> Vocabulary:
    """Return the words that bound plans of the installed engine may have.

    Those of a version that was not tested are the words of all that were, without the functions that are gone
    or have become volatile.
    """
    untested = untested_notice()
    versions = list(tested_versions().values()) if untested else [tested_versions()[installed_version()]]
    words = {
        kind: frozenset(word for each in versions for word in each.words[kind]) for kind in versions[0].words
    }
    called = {name: text for each in versions for name, text in each.functions.items()}
    if untested:
        there: dict[str, str] = {}
        with suppress(duckdb.Error):
            there = list_functions(connection)
        called = {name: there.get(name, "") for name, text in called.items() if name in there or not text}
    steady = frozenset(name for name, text in called.items() if "VOLATILE" not in text)
    return Vocabulary(**words, functions=steady, untested=untested)


def check_settings(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `EngineNotTested` where a setting that is relied on is not as in the last tested version."""
    untested = untested_notice()
    if not untested:
        return
    expected = tested_versions()[list(tested_versions())[-1]].relied_on
    found = read_relied_on(connection)
    other = [name for name, value in expected.items() if found.get(name) != value]
    if other:
        raise EngineNotTested(
            f"{untested}; the settings {', '.join(other)} are not as they were, so the data are not opened"
        )


def list_functions(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the volatility and the signatures of each scalar and aggregate function, by its name."""
    taken = "array_to_string(parameter_types, ', '), varargs"
    cells = f"function_name, function_type, stability, {taken}, return_type"
    own = "function_type IN ('scalar', 'aggregate') AND database_name = 'system'"
    rows = connection.execute(f"SELECT {cells} FROM duckdb_functions() WHERE {own}").fetchall()
    found: dict[str, set[str]] = {}
    for name, kind, stability, parameters, more, result in rows:
        taken = ", ".join(filter(None, (parameters, more and f"{more}..")))
        found.setdefault(name, set()).add(f"{kind} {stability} ({taken}) {result}")
    return {name: "; ".join(sorted(signatures)) for name, signatures in sorted(found.items())}


def list_optimizers(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the names of the engine's optimizers."""
    return tuple(sorted(name for (name,) in connection.execute("FROM duckdb_optimizers()").fetchall()))


def read_relied_on(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the value of each setting that is relied on and exists."""
    found = {}
    for name in RELIED_ON:
        try:
            row = connection.execute(f"SELECT current_setting('{name}')").fetchall()[0]
        except duckdb.Error:
            continue
        found[name] = repr(row[0])
    return found


_Result = TypeVar("_Result")

_UNSAFE_OPTIMIZERS = ("type_pushdown", "scalar_fn_pushdown", "common_subexpressions", "self_join_aggregate")
"""Optimizers that move a conversion or a function out of its TRY: into a file's reader, or into a common
subexpression of two TRYs. The last one makes one reading of two, and nobody has shown that it keeps each TRY.
"""
_STATISTICS = "statistics_propagation"
"""It computes functions of a column's minimum and maximum during planning, where no TRY catches an error."""

_NICENESS = 10
"""How far threads in the background stand behind others of the machine."""
_LAST = 19
"""The lowest priority that there is."""


def connect(
    pinned: Mapping[str, str] | None = None, *, background: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open an empty in-memory database with settings pinned, not yet locked.

    Without an argument they are those that the compiled queries of releases need. In the `background`, the
    threads that it starts for its queries give way to others. Raises `EngineNotTested` for an engine that was
    not tested and lacks one of the settings, or has another value for one that is relied on.
    """
    what = "start"
    try:
        connection = _open_in_background() if background else _open_empty()
        for name, value in (_PINNED if pinned is None else pinned).items():
            what = f"take the setting {name}"
            connection.execute(f"SET GLOBAL {name} = {value}")
        what = "tell its settings"
        switch_off_progress_bar(connection)
        if pinned is None:
            what = "list its optimizers"
            _switch_off(connection, (_STATISTICS, *_UNSAFE_OPTIMIZERS))
            check_settings(connection)
    except duckdb.Error:
        untested = untested_notice()
        if not untested:
            raise
        raise EngineNotTested(f"{untested}; it does not {what}, so the data are not opened") from None
    return connection


def switch_off_progress_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Let long queries of a connection write no progress bar into standard output.

    The engine switches it on where it takes the process for an interactive one, such as a program that was
    started by `python -m`. It has no global value, and a cursor starts without it.
    """
    try:
        connection.execute("SET enable_progress_bar = false")
    except duckdb.Error:  # in a notebook without widgets, even where it is off
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
            raise


def _switch_off(connection: duckdb.DuckDBPyConnection, optimizers: Sequence[str]) -> None:
    """Switch off those optimizers that the engine has, and those that no tested version has."""
    known = {name for each in tested_versions().values() for name in each.optimizers}
    there = list_optimizers(connection)
    names = ",".join(name for name in there if name in optimizers or name not in known)
    connection.execute(f"SET GLOBAL disabled_optimizers = '{names}'")


def _open_empty() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=dict(_AT_START))


def _open_in_background() -> duckdb.DuckDBPyConnection:
    """Open a database in a thread of low priority, which the threads that it starts inherit."""

    def give_way() -> None:
        if sys.platform == "linux":  # elsewhere a priority is the whole process's
            thread = threading.get_native_id()
            own = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(_LAST, own + _NICENESS))

    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  few databases are opened so

    with ThreadPoolExecutor(1, initializer=give_way) as thread:
        return thread.submit(_open_empty).result()


def run_on_cursor(
    connect: Callable[[], duckdb.DuckDBPyConnection],
    work: Callable[[duckdb.DuckDBPyConnection], _Result],
    message: str,
) -> _Result | None:
    """Run work on a new cursor; return its result, or None if it failed; `Cancelled` gets `message`.

    The thread that runs it calls `connect` too: in the main thread, a Ctrl-C while a database opens would
    look like a failure of the engine.
    """
    cursors: list[duckdb.DuckDBPyConnection] = []

    def body() -> _Result:
        cursors.append(connect().cursor())
        with cursors[0]:
            return work(cursors[0])

    def stop() -> None:
        for cursor in cursors:
            interrupt(cursor)

    return run_in_thread(body, stop, lambda error: isinstance(error, duckdb.InterruptException), message)


def interrupt(cursor: duckdb.DuckDBPyConnection) -> None:
    """Stop what a cursor runs, from another thread."""
    with suppress(duckdb.Error):  # it may be closed
        cursor.interrupt()


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for a Ctrl-C that DuckDB reports as `RuntimeError` in the main thread."""
    try:
        yield
    except RuntimeError as problem:
        if str(problem) != INTERRUPTED:
            raise
        stopped = True
    else:
        stopped = False
    if stopped:
        raise KeyboardInterrupt


def lock(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    spill: Path | None,
    *,
    statistics: bool = False,
    memory: int | None = None,
) -> None:
    """Allow reading exactly these files and lock all settings; `spill` is the folder of temporary files.

    `memory` is the most bytes that the database takes; None: the engine's own limit.

    `statistics` lets the optimizer use the minimum and maximum of columns: counting distinct units takes an
    eighth less time and a quarter less memory. It is only for queries with `CompiledQuery.counts_only`, since
    it computes functions of a minimum and a maximum during planning, where no TRY catches an error.
    """
    if statistics:
        _switch_off(connection, _UNSAFE_OPTIMIZERS)
    if memory is not None:
        connection.execute(f"SET GLOBAL memory_limit = '{memory}B'")
    folder = str(spill) if spill is not None else ""
    connection.execute("SET GLOBAL temp_directory = '" + folder.replace("'", "''") + "'")
    listed = ", ".join("'" + str(p).replace("'", "''") + "'" for p in paths)
    connection.execute(f"SET GLOBAL allowed_paths = [{listed}]")
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")
