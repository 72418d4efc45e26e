"""Collect what the installed packages do, as JSON: `python -m tests.engine_drift` runs it in environments.

Everything is collected with the engine's own words let through, so an engine that dpsql was never tested with
gives its facts, too. A section that cannot be collected says why.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb

PACKAGES = ("duckdb", "sqlglot", "pyarrow", "numpy", "click")
ROOT = Path(__file__).parents[2]
STATEMENTS = Path(__file__).with_name("statements.sql")


class Seen(set[str]):
    """A set that has every word, and keeps those that it was asked for."""

    def __contains__(self, word: object) -> bool:
        self.add(str(word))
        return True


def collect() -> dict[str, Any]:
    """Return the facts of the installed packages, a section each."""
    facts: dict[str, Any] = {"versions": {name: version(name) for name in PACKAGES}}
    with duckdb.connect() as plain:
        facts["settings"] = {
            name: f"{scope} {kind}"
            for name, scope, kind in plain.execute(
                "SELECT name, scope, input_type FROM duckdb_settings() ORDER BY name"
            ).fetchall()
        }
    sections: dict[str, Callable[[], Any]] = {"words": _words, "results": _results}
    try:
        sections = {**_let_through(), **sections}
    except Exception:  # noqa: BLE001  whatever another version does, it is reported
        facts["failed"] = {"all": traceback.format_exc(limit=-1)}
        return facts
    facts["failed"] = {}
    for name, section in sections.items():
        try:
            facts[name] = section()
        except Exception:  # noqa: BLE001
            facts["failed"][name] = traceback.format_exc(limit=-1)
    return facts


def _let_through() -> dict[str, Callable[[], Any]]:
    """Take an engine of any version as tested; return the sections that need no statement."""
    from dpsql.engines.duckdb import duckdb_settings

    with duckdb.connect() as plain:
        for name, value in list(duckdb_settings._PINNED.items()):
            with suppress(duckdb.Error):
                plain.execute(f"SET GLOBAL {name} = {value}")
                continue
            del duckdb_settings._PINNED[name]
        for name in list(duckdb_settings._AT_START):
            try:
                plain.execute(f"SELECT current_setting('{name}')")
            except duckdb.Error:
                del duckdb_settings._AT_START[name]
    duckdb_settings.untested_notice = lambda: ""
    duckdb_settings.check_settings = lambda connection: None
    duckdb_settings.read_vocabulary = lambda connection: VOCABULARY

    def of(read: Callable[[duckdb.DuckDBPyConnection], Any]) -> Callable[[], Any]:
        def section() -> Any:
            with duckdb_settings.connect() as connection:
                return read(connection)

        return section

    return {
        "relied_on": of(duckdb_settings.read_relied_on),
        "optimizers": of(duckdb_settings.list_optimizers),
        "functions": of(duckdb_settings.list_functions),
    }


def _words() -> dict[str, Any]:
    """Return the words of the bound plans of all forms and all statements, and the SQL that these become."""
    from fuzz.totality import PLACES, Hostile, syntax, texts

    with tempfile.TemporaryDirectory() as folder:
        hostile = Hostile(Path(folder), 1)
        hostile.engine.count = lambda compiled: None  # type: ignore[assignment,return-value]  # nothing is counted
        every = [*texts(), *syntax()]
        for place in PLACES:
            hostile.failing(every if place.name in _EVERY else every[::40], place)
        hostile.close()
    compiled = {}
    for name, session, statement in _statements():
        compiled[name] = [_NOW.sub("NOW", text) for text in _compiled(session, statement)]
    words = {kind: sorted(getattr(VOCABULARY, kind)) for kind in _KINDS}
    called = sorted({*VOCABULARY.functions, *_OF_BITS})
    return {"words": words, "called": called, "compiled": compiled}


_OF_BITS = ("bit_count", "bitstring_agg")
"""What the texts call that count units by bits: they are confirmed where they run."""
_NOW = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
_EVERY = ("WHERE", "aggregate", "window")
_KINDS = ("expressions", "operators", "plans", "windows")


def _statements() -> Iterator[tuple[str, Any, str]]:
    """Yield the accepted fixtures and the examples, each with a session over their tables."""
    from dpsql.language import split_script
    from dpsql.policy import load
    from dpsql.session import Session
    from tests.sql_fixtures import FOLDER, raw_data, read, write

    with tempfile.TemporaryDirectory() as folder, raw_data() as raw:
        session = Session(load(write(Path(folder) / "sql", raw)))
        files = (*sorted((FOLDER / "accepted").glob("*.sql")), FOLDER / "composed.sql", STATEMENTS)
        for path in files:
            for fixture in read(path):
                yield fixture.name, session, fixture.statement
        session.close()
    with tempfile.TemporaryDirectory() as folder:
        for path in (ROOT / "data").iterdir():
            if path.suffix in (".parquet", ".toml"):
                (Path(folder) / path.name).symlink_to(path)
        for policy, file in (("clinic", "clinic"), ("clinic", "cookbook"), ("flights", "flights")):
            session = Session(load(Path(folder) / f"{policy}.toml"))
            for i, statement in enumerate(
                split_script((ROOT / "examples" / f"{file}.sql").read_text("utf-8")), 1
            ):
                yield f"{file} {i}", session, statement
            session.close()


def _compiled(session: Any, statement: str) -> list[str]:
    """Return the SQL that a statement becomes, or its error."""
    from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
    from dpsql.errors import Error

    try:
        prepared = session.prepare(statement)
    except Error as error:
        return [f"{type(error).__name__}: {error}"]
    if isinstance(prepared, PreparedPrivate):
        return [prepared.counting.plan.compiled.sql]
    if isinstance(prepared, PreparedComposed):
        return [*(part.counting.plan.compiled.sql for part in prepared.parts), prepared.outer]
    return [prepared.sql] if isinstance(prepared, PreparedPublic) else [type(prepared).__name__]


def _results() -> dict[str, dict[str, Any]]:
    """Return what each form of each function computes on its samples: the Arrow type, and a text a row."""
    from fuzz.calls import literals
    from fuzz.hostile import forms, values, variants

    from dpsql.engines.duckdb import duckdb_settings

    found: dict[str, dict[str, Any]] = {}
    with duckdb_settings.connect() as connection:
        connection.execute("SET threads = 1")
        for form in forms():
            for kinds in variants(form):
                names = [f"a{i}" for i in range(len(kinds))]
                sources = [f"({values(k)}) AS s{i}(a{i})" for i, k in enumerate(kinds) if k[0] not in "=#"]
                rows = " CROSS JOIN ".join(sources) or "(SELECT 1) AS s"
                given = ", ".join(
                    f"{n}::VARCHAR" for n, k in zip(names, kinds, strict=True) if k[0] not in "=#"
                )
                chosen = [
                    (literals(form.name, k, i) if k[0] in "=#" else [n])
                    for i, (n, k) in enumerate(zip(names, kinds, strict=True))
                ]
                for i in range(max(map(len, chosen), default=1)):
                    text = form.template.format(*(c[i % len(c)] for c in chosen))
                    found[f"{form.name} ({', '.join(kinds)}) {text}"] = _on_samples(
                        connection, text, given, rows
                    )
    return found


def _on_samples(connection: duckdb.DuckDBPyConnection, text: str, given: str, rows: str) -> dict[str, Any]:
    try:
        kind = connection.sql(f"SELECT {text} AS x FROM {rows}").to_arrow_table().schema.field(0).type
        asked = f"SELECT concat_ws(', ', {given or 'NULL'}), CAST({text} AS VARCHAR) FROM {rows}"
        read = connection.execute(asked).fetchall()
    except (duckdb.Error, ValueError) as error:
        return {"type": "", "rows": [["", f"{type(error).__name__}: {str(error)[:200]}"]]}
    return {"type": str(kind), "rows": sorted([_short(a), _short(b)] for a, b in read)}


def _short(text: str | None) -> str:
    """Return a text, or the beginning and the digest of a long one."""
    if text is None:
        return "NULL"
    return text if len(text) <= 60 else f"{text[:40]}.. {sha256(text.encode()).hexdigest()[:16]}"


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "property")]
    from dpsql.analysis import Vocabulary

    VOCABULARY = Vocabulary(Seen(), Seen(), Seen(), Seen(), Seen())
    Path(sys.argv[1]).write_text(json.dumps(collect(), indent=1))
