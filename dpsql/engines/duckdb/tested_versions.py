"""The versions of DuckDB that dpsql was tested with, and what the guarantee reads of each, as data.

The files of `tested/` are made by ``python -m tests.engine_drift --write`` and reviewed as a diff. The
guarantee reads: the words of bound plans; which functions these call, with their signatures and volatility;
the settings that give values and statements their meaning; the optimizers, of which some would move what may
fail out of its TRY.

Another version is told to the owner and gets nothing on trust: its unknown optimizers are switched off, a
statement is refused whose plan has an unknown word or a function that is gone or volatile, and where a
setting that is relied on is missing or has another value, no data is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb

from dpsql.analysis import Vocabulary
from dpsql.errors import EngineNotTested
from dpsql.lazy_dataclass import dataclass

_FOLDER = Path(__file__).with_name("tested")

RELIED_ON = (
    # The meaning of values, and of statements.
    *("TimeZone", "Calendar", "default_collation", "ieee_floating_point_ops", "error_on_division_by_zero"),
    *("integer_division", "scalar_subquery_error_on_multiple_rows", "default_null_order", "default_order"),
    *("order_by_non_integer_literal", "regex_match_operator_semantics", "disable_timestamptz_casts"),
    *(
        "legacy_disable_null_type",
        "dialect_compatibility_mode",
        "current_dialect",
        "preserve_insertion_order",
    ),
    *("binary_as_string", "active_grammar_extensions", "schema", "search_path"),
    # What may run, be read or be written.
    *("max_execution_time", "enable_logging", "autoinstall_known_extensions", "autoload_known_extensions"),
    *("allow_community_extensions", "allow_persistent_secrets", "python_enable_replacements"),
    *("allowed_configs", "enable_profiling", "profiling_output", "profile_output", "log_query_path"),
    *("operator_memory_limit", "file_search_path", "enable_optimizer", "enable_progress_bar"),
    # How results and errors are written.
    *("errors_as_json", "arrow_lossless_conversion", "arrow_large_buffer_size", "arrow_output_list_view"),
)
"""Settings whose values the guarantee relies on; `settings` pins some, others have the engine's default."""


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
def tested() -> dict[str, EngineFacts]:
    """Return the facts of each tested version, the oldest version first."""
    files = sorted(_FOLDER.glob("*.json"), key=lambda path: tuple(map(int, path.stem.split("."))))
    return {path.stem: EngineFacts(**json.loads(path.read_text("utf-8"))) for path in files}


def installed() -> str:
    """Return the version of DuckDB that is installed."""
    return str(duckdb.__version__)


def notice() -> str:
    """Return a sentence that the installed version was not tested, and what to install; empty if it was."""
    versions = list(tested())
    if installed() in versions:
        return ""
    listed = " and ".join(filter(None, (", ".join(versions[:-1]), versions[-1])))
    return (
        f"DuckDB {installed()} is installed, and dpsql was tested with {listed}: "
        f"pip install 'duckdb=={versions[-1]}'"
    )


def vocabulary(connection: duckdb.DuckDBPyConnection) -> Vocabulary:
    """Return the words that bound plans of the installed engine may have.

    Those of a version that was not tested are the words of all that were, without the functions that are gone
    or have become volatile.
    """
    untested = notice()
    versions = list(tested().values()) if untested else [tested()[installed()]]
    words = {
        kind: frozenset(word for each in versions for word in each.words[kind]) for kind in versions[0].words
    }
    called = {name: text for each in versions for name, text in each.functions.items()}
    if untested:
        there: dict[str, str] = {}
        with suppress(duckdb.Error):
            there = functions(connection)
        called = {name: there.get(name, "") for name, text in called.items() if name in there or not text}
    steady = frozenset(name for name, text in called.items() if "VOLATILE" not in text)
    return Vocabulary(**words, functions=steady, untested=untested)


def check_settings(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `EngineNotTested` where a setting that is relied on is not as in the last tested version."""
    untested = notice()
    if not untested:
        return
    expected = tested()[list(tested())[-1]].relied_on
    found = relied_on(connection)
    other = [name for name, value in expected.items() if found.get(name) != value]
    if other:
        raise EngineNotTested(
            f"{untested}; the settings {', '.join(other)} are not as they were, so the data are not opened"
        )


def functions(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
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


def optimizers(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the names of the engine's optimizers."""
    return tuple(sorted(name for (name,) in connection.execute("FROM duckdb_optimizers()").fetchall()))


def relied_on(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the value of each setting that is relied on and exists."""
    found = {}
    for name in RELIED_ON:
        try:
            row = connection.execute(f"SELECT current_setting('{name}')").fetchall()[0]
        except duckdb.Error:
            continue
        found[name] = repr(row[0])
    return found
