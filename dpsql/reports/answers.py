"""The answers of a report: one estimate of all that was measured, and each statement computed from it.

It is post-processing: it reads releases, the policy and public tables alone, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpsql.analysis import Catalog
from dpsql.composition import run_composed
from dpsql.composition.prepared import PreparedPrivate, PreparedPublic
from dpsql.composition.release_words import words_of_release
from dpsql.errors import OperationalError
from dpsql.estimates import Combined
from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.value_sets import ValueSet
from dpsql.kernel.loss import Charge
from dpsql.kernel.tree import duckdb_sql
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import NoisyResult, build_details, build_rows
from dpsql.reports.axes import LinearRelease, Numbers
from dpsql.reports.planned import PlannedReport, ReportStatement, others_of
from dpsql.release import Release
from dpsql.session_api import StatementResult


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """The rows of a release that are known without any private row: all groups of declared keys."""

    columns: tuple[pa.Array, ...]
    size: int

    def __len__(self) -> int:
        return self.size

    def keys(self, rows: object, shown: Sequence[int] | None = None) -> Sequence[pa.Array]:
        """Return the keys of the rows, or some of them, by their places."""
        return [self.columns[i] for i in (range(len(self.columns)) if shown is None else shown)]


def answer_report(planned: PlannedReport, releases: Sequence[Release]) -> list[StatementResult]:
    """Return the answer of each statement, given what was released for the report."""
    found = iter(releases)
    estimates: dict[str, tuple[Estimate, tuple[Release, ...]]] = {}
    for family in planned.families:
        own = [(each.query, next(found)) for each in family.measured]
        made = [query.read(release, planned.digest) for query, release in own]
        catalog = family.measured[0].prepared.engines.schema_database
        universe = universe_of(made, family.table.name, catalog)
        estimates[family.table.name] = Estimate.of(made, universe), tuple(release for _, release in own)
    rest = planned.prepared.parts[len(planned.measured) :] if planned.prepared is not None else ()
    others = {part.key: release for part, release in zip(rest, found, strict=True)}
    return [answer_statement(each, estimates, others) for each in planned.statements]


def answer_statement(
    statement: ReportStatement,
    estimates: Mapping[str, tuple[Estimate, tuple[Release, ...]]],
    others: Mapping[str, Release],
) -> StatementResult:
    """Return the answer of one statement: from the estimates of tables, and from releases that stay out."""
    prepared = statement.prepared
    if isinstance(prepared, PreparedPublic):
        return StatementResult(prepared.engines.schema_database.run(prepared.sql, prepared.text))
    parts = tuple(
        others[part.key]
        if isinstance(linear, str)
        else _estimated(part, linear, *estimates[linear.table.name])
        for part, linear in zip(prepared.parts, statement.linear, strict=True)
    )
    release = parts[0] if isinstance(prepared, PreparedPrivate) else run_composed(prepared, parts)
    if others_of(statement):
        release = replace(release, warnings=(*release.warnings, *_why(statement)))
    return StatementResult(release.rows, release)


def _why(statement: ReportStatement) -> list[str]:
    return [f"not from the estimate of the report: it {reason}" for reason in statement.reasons]


def universe_of(made: Sequence[object], table: str, catalog: Catalog) -> dict[str, ValueSet]:
    """Return the values that listed columns of a table can have, of those that are measured."""
    found: dict[str, ValueSet] = {}
    for measured in made:
        for name in measured.marginal.columns:  # type: ignore[attr-defined]
            column = name.removeprefix(f"{table}.")
            domain = catalog.domain(table, column)
            if name in found or domain is None or not catalog.complete(table, column):
                continue
            values = catalog.run(f"SELECT v FROM ({duckdb_sql(domain)}) AS d").column(0).to_pylist()
            found[name] = ValueSet.of_values(values)
    return found


def _estimated(
    part: PreparedPrivate, linear: LinearRelease, estimate: Estimate, measured: Sequence[Release]
) -> Release:
    """Return a release whose numbers are those of an estimate."""
    level = float(part.plan.options.confidence or Fraction(95, 100))
    counts, used = [], set[int]()
    for number in linear.numbers:
        counts.append(_combined(number, estimate, level, used))
    rows = PublicRows(linear.keys, linear.size)
    answer = NoisyResult(rows, tuple(counts))  # type: ignore[arg-type]  # rows that no step has made
    shown = build_rows(part.plan, answer, rows)
    table, places = build_details(part.plan, answer, shown)
    said = words_of_release(part.plan, part.method)
    numbers = ", ".join(map(str, sorted(used)))
    said["mechanism"] = f"one estimate of release{'s' * (len(used) != 1)} {numbers}"
    said["properties"] = {**said["properties"], "computed": numbers}
    said["guarantee"] = "; ".join(dict.fromkeys(each.guarantee for each in measured))
    return Release(
        rows=shown,
        table=table,
        places=places,
        charge=Charge(),
        statement=part.text,
        scale=0.0,
        receipt=measured[0].receipt,
        **said,
    )


def _combined(number: Numbers, estimate: Estimate, level: float, used: set[int]) -> Combined:
    found = estimate.answer(number.wanted, level)
    if isinstance(found, Undetermined):
        raise OperationalError(f"what was released does not tell this number; missing: {found.text}")
    used.update(found.releases)
    there = number.places >= 0
    places = np.maximum(number.places, 0)
    every = (np.where(there, each.ravel()[places], 0.0) for each in (found.values, found.stddev, found.low, found.high))
    return Combined(*every)
