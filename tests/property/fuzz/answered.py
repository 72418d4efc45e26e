"""Ask random statements of a real session, and compare each answer with plain DuckDB's, in every form."""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa

from dpsql.dbapi import Connection
from dpsql.dbapi.cursor import Cursor
from dpsql.errors import Error, InternalError, QueryRefused, QuerySyntaxError
from dpsql.release import Release, places_of
from dpsql.session import Session
from fuzz.asked import Asked, Maker, Number, write_data
from fuzz.formats import problems

__all__ = ["Figures", "campaign"]

Rows = dict[tuple[object, ...], list[tuple[object, ...]]]
"""Rows by their keys."""


@dataclass
class Figures:
    """What a campaign saw."""

    asked: int = 0
    refused: int = 0
    compared: int = 0
    rows: int = 0
    features: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str, int]] = field(default_factory=list)
    """What was wrong, the statement, and its seed."""

    def kinds(self) -> Counter[str]:
        """Count the failures by the beginning of their words."""
        return Counter(what.partition(" in group ")[0][:70] for what, _, _ in self.failures)


def campaign(seeds: range, *, every: int = 60, forms: int = 100) -> Figures:
    """Ask one statement a seed, and give it in so many forms; the table changes with each `every` of them."""
    found = Figures()
    for first in range(seeds.start, seeds.stop, every):
        part = range(first, min(first + every, seeds.stop))
        with tempfile.TemporaryDirectory() as place:
            folder, rng = Path(place), Random(first)
            sparse = (first // every) % 4 == 3
            write_data(folder, rng, sparse=sparse)
            session = Session(folder / "dpsql.toml", "ana")
            with duckdb.connect() as plain, Connection(session) as connection:
                plain.execute("SET TimeZone = 'UTC'")
                plain.execute(plain_view(folder))
                for seed in part:
                    made = Maker(Random(seed), sparse=sparse).statement()
                    _one(found, session, connection, plain, made, folder, seed, forms)
    return found


def plain_view(folder: Path) -> str:
    """Return the view of plain SQL, whose integers do not overflow, as dpsql's saturate."""
    rows = f"read_parquet('{folder / 't.parquet'}')"
    return f"CREATE VIEW t AS SELECT * REPLACE (i::HUGEINT AS i) FROM {rows}"


def _one(
    found: Figures,
    session: Session,
    connection: Connection,
    plain: duckdb.DuckDBPyConnection,
    made: Asked,
    folder: Path,
    seed: int,
    forms: int,
) -> None:
    found.asked += 1
    cursor = connection.cursor()
    try:
        expected = plain.sql(made.plain).to_arrow_table()
    except duckdb.Error as problem:
        found.failures.append((f"the plain text fails: {str(problem)[:80]}", made.plain, seed))
        return
    try:
        cursor.execute(made.text)
    except (QueryRefused, QuerySyntaxError) as problem:
        found.refused += 1
        found.refusals[problem.message[:70]] += 1
        return
    except Error as problem:
        words = "a bug" if isinstance(problem, InternalError) else "an error"
        found.failures.append((f"{words} of dpsql: {str(problem)[:160]}", made.text, seed))
        return
    except Exception as problem:  # noqa: BLE001  any is a finding
        found.failures.append((f"{type(problem).__name__}: {str(problem)[:160]}", made.text, seed))
        return
    found.compared += 1
    found.features.update(made.features)
    wrong = compare(made, cursor, expected) or (made.ends and _between(made, cursor, plain))
    found.rows += cursor.rowcount
    if wrong:
        found.failures.append((wrong, made.text, seed))
    wrong_forms = problems(session, cursor, folder, made.text, seed, forms)
    found.failures += [(f"form {each}", made.text, seed) for each in wrong_forms]


def compare(made: Asked, cursor: Cursor, expected: pa.Table) -> str:
    """Say where an answer differs from plain SQL's."""
    table, release = cursor.arrow(), cursor.release
    assert release is not None
    if table.num_columns != expected.num_columns:
        return f"{table.num_columns} columns for {expected.num_columns}"
    if made.titles and table.column_names != list(made.titles):
        return f"the columns are called {table.column_names}, not {list(made.titles)}"
    spreads, decided = _spreads(release, table), _decided(release)
    undecided = any("without values is some value" in words for words in release.warnings)
    if made.counted and decided is not None:
        own = table.column(0)[0].as_py()
        return "" if own == decided else f"the line says {decided} groups, and the answer {own}"
    got, want = _by_keys(table, made.keys), _by_keys(expected, made.keys)
    for key, rows in want.items():
        here = got.pop(key, None)
        if here is None:
            if decided is not None and None in key:
                continue  # the line says how many groups of NULL are left out
            return f"missing in group {key}: {rows[:1]}"
        if len(here) != len(rows):
            return f"{len(here)} rows for {len(rows)} in group {key}"
        for (own, at), (theirs, _) in zip(here, rows, strict=True):
            for place, number in enumerate(made.numbers):
                spread = spreads[made.keys + place][at]
                wrong = _differs(own[place], theirs[place], number, spread)
                if wrong and number.kind == "quantile" and theirs[place] is None and undecided:
                    continue  # the line says that such a group shows some value
                if wrong and not (decided is not None and number.kind == "of groups"):
                    both = f"{number.text} is {own[place]!r}, not {theirs[place]!r}"
                    return f"{number.kind} {wrong} in group {key}: {both}"
    for key, rows in got.items():
        for own, at in rows:
            for place, number in enumerate(made.numbers):
                spread = spreads[made.keys + place][at]
                if number.kind in ("count", "sum") and _differs(own[place], 0, number, spread):
                    return f"not there in group {key}: {number.text} is {own[place]!r}"
    return ""


def _decided(release: Release) -> int | None:
    """Return how many groups a line says exist for the SQL around; None where it says nothing."""
    for words in release.warnings:
        if found := re.search(r"each of the ([0-9,]+) groups of declared keys counts here", words):
            return int(found[1].replace(",", ""))
    return None


def _between(made: Asked, cursor: Cursor, plain: duckdb.DuckDBPyConnection) -> str:
    """Say which quantile does not lie between the values around its rank."""
    ends = _by_keys(plain.sql(made.ends).to_arrow_table(), made.keys)
    got = _by_keys(cursor.arrow(), made.keys)
    quantiles = [place for place, number in enumerate(made.numbers) if number.kind == "quantile"]
    for key, rows in ends.items():
        for (lows, _), (own, _) in zip(rows, got[key], strict=True):
            for i, place in enumerate(quantiles):
                low, value, high = lows[2 * i], own[place], lows[2 * i + 1]
                if low is None or value is None or high is None:
                    continue  # a group without values has none
                number = made.numbers[place]
                if not float(low) - number.step <= float(value) <= float(high) + number.step:  # type: ignore[arg-type]
                    return f"quantile outside in group {key}: {number.text} is {value}, not {low} to {high}"
    return ""


def _spreads(release: Release, table: pa.Table) -> list[list[float]]:
    """Return the standard deviation of each cell, as far as it is told."""
    found = [[0.0] * table.num_rows for _ in range(table.num_columns)]
    for number in places_of(release).numbers:
        if number.stddev is not None:
            listed = release.table.column(number.stddev).to_pylist()
            found[number.place] = [0.0 if value is None else value for value in listed]
    return found


def _by_keys(table: pa.Table, keys: int) -> dict[tuple[object, ...], list[tuple[tuple[object, ...], int]]]:
    columns = [column.to_pylist() for column in table.columns]
    found: dict[tuple[object, ...], list[tuple[tuple[object, ...], int]]] = {}
    for i, row in enumerate(zip(*columns, strict=True)):
        found.setdefault(row[:keys], []).append((row[keys:], i))
    return found


_NOISE = 0.05
"""What noise may move a number that tells no standard deviation: sums of many, expressions."""


def _differs(own: object, theirs: object, number: Number, spread: float) -> str:
    """Say how a number differs from the plain one; empty if it does not."""
    if own is None or theirs is None or isinstance(theirs, str):
        return "" if own == theirs else "NULL"
    one, other = float(own), float(theirs)  # type: ignore[arg-type]  # numbers
    if not math.isfinite(one) or not math.isfinite(other):
        same = one == other or (math.isnan(one) and math.isnan(other))
        return "" if same else "not finite"
    room = 8 * spread + number.step * 100 + _NOISE + 1e-6 * abs(other)
    if number.kind == "moment":  # of values between -1000 and 1000
        room += 0.01 * abs(other) + 5e-5 * 1000**2
    if number.kind == "quantile":
        return ""
    return "" if abs(one - other) <= room else "differs"
