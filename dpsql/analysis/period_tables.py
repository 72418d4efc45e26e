"""Compile tables whose unit is what one did in one period, such as a patient in one week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.analysis.compiled_relation import Owner, Relation, RelationColumn, select_list
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.typed_expression import UnitRole
from dpsql.kernel.tree import Expr, IsNull, Scan, Select
from dpsql.kernel.tree.period_units import unit_in_period
from dpsql.policy import Table, UnitPeriod, fold
from dpsql.types import DATE, VARCHAR


def compile_periods(
    compiler: StatementCompiler,
    table: Table,
    of: UnitPeriod,
    columns: tuple[RelationColumn, ...],
    cells: Sequence[Expr],
    unique: frozenset[frozenset[int]],
) -> Relation:
    """Compile a table whose unit is what one did in one period: the hidden unit is of both."""
    compiler.catalog.facts(compiler.policy, (table.name,))  # which checks that there are such dates
    places = {fold(c.name): i for i, c in enumerate(columns)}
    person, date = places[fold(of.column)], places[fold(of.date)]
    days = columns[date].type == DATE
    roles = {person: UnitRole.PERSON, date: UnitRole(of.every)}
    fixed = {person, date} if days and of.every == "day" else {person}
    listed = tuple(
        replace(
            c,
            unit=roles.get(i, UnitRole.NONE),
            fact=i in fixed,
            nulls=c.nulls and i != person,
            link="" if i == person else c.link,
        )
        for i, c in enumerate(columns)
    )
    unit = unit_in_period(cells[person], cells[date], of.period, dates=days)
    query = Select(select_list(unit, "c", cells), Scan(table.name, "b"), IsNull(unit, negated=True))
    return Relation(query, listed, Owner(of.kind, VARCHAR, every=of.every), unique)
