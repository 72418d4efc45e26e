"""Tables whose unit is what one did in one period, such as a patient in one week, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import Owner, Relation, select_list
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.typed_expression import Typed, UnitRole
from dpsql.errors import NotSupportedError, QueryRefused, with_article
from dpsql.kernel.check import Certificate
from dpsql.kernel.tree import Expr, IsNull, Scan, Select
from dpsql.kernel.tree.period_units import unit_in_period
from dpsql.language import Ask, Check, OpenChecks, Query, StatementText, StreamCommand
from dpsql.policy import Policy, Table, UnitPeriod, UnitPeriods, fold
from dpsql.types import DATE, VARCHAR


def refuse_totals(source: StatementText, owner: Owner, at: exp.Expr) -> QueryRefused:
    """Return the refusal of what is computed of the rows of one person in several periods."""
    return source.refuse(
        f"{with_article(owner.kind)}'s total over {owner.every}s is of many units",
        at,
        f"group by the {owner.every} too: GROUP BY {owner.kind}_id, date_trunc('{owner.every}', ..)",
    )


def check_found_keys(query: Query, owner: Owner | None, proved: Certificate) -> None:
    """Refuse keys that nobody declares, over several periods.

    Which groups exist is decided by their units: one person in many periods would be as many, and the delta
    of k of them together is k e^((k-1) epsilon) times that of one.
    """
    if owner is None or not owner.every or proved.decides is None:
        return
    if proved.parts is None or len(proved.parts) > 1:
        raise query.source.refuse(
            f"which groups there are is told of one {owner.every} at a time: one {owner.kind} in many"
            f" {owner.every}s would be as many units",
            query.tree.args.get("group"),
            f"WHERE date_trunc('{owner.every}', ..) = DATE '..', or list the values of the key",
        )


def refuse_person(source: StatementText, at: exp.Expr) -> QueryRefused:
    """Return the refusal of a subquery that groups by the person, and not by the period."""
    return source.refuse(
        "a total over several periods is of many units: the unit is what one did in one period",
        at,
        "group by the period too: GROUP BY .., date_trunc('week', ..)",
    )


def refuse_join(source: StatementText, owner: Owner, at: exp.Expr) -> QueryRefused:
    """Return the refusal of rows that are not tied by both, person and period."""
    periods = " = ".join(f"date_trunc('{owner.every}', {alias}.day)" for alias in "ab")
    return source.refuse(
        f"rows are joined only within one {owner.kind} and one {owner.every}, which is the privacy unit",
        at,
        f"equate both: a.{owner.kind}_id = b.{owner.kind}_id AND {periods}",
    )


def refuse_standing(source: StatementText, owner: Owner, at: exp.Expr) -> QueryRefused:
    """Return the refusal of standing rows that depend on rows with periods."""
    return source.refuse(
        f"what {with_article(owner.kind)} did in one {owner.every} would decide about rows of the "
        f"{owner.kind} that stand for all {owner.every}s",
        at,
        f"start FROM the table with {owner.every}s: a LEFT JOIN b, IN or EXISTS of b",
    )


def compile_periods(
    compiler: StatementCompiler,
    table: Table,
    of: UnitPeriod,
    columns: tuple[Typed, ...],
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


def check_no_periods(policy: Policy, what: str, instead: str, source: StatementText | None = None) -> None:
    """Raise an error that says what is refused, and what to write instead, if a table has `unit_period`."""
    periods = policy.unit_parts
    if not isinstance(periods, UnitPeriods):
        return
    words = f"{what} where a unit is {with_article(periods.kind)} in one {periods.every}"
    if source is not None:
        raise source.refuse(words, None, instead)
    raise NotSupportedError(f"{words}: {instead}")


def check_stream(policy: Policy, statement: Check | Ask | OpenChecks | StreamCommand | None = None) -> None:
    """Refuse a stream, which would ask about all periods, for long; it may be closed."""
    if isinstance(statement, StreamCommand) and statement.what == "close":
        return
    source = None if statement is None else statement.source
    check_no_periods(
        policy, "no stream is opened or asked", "ask by statements: each is charged to what it reads", source
    )


def check_report(policy: Policy, source: StatementText | None = None) -> None:
    """Refuse a report: which of its numbers are linear in common cells was proved of units with one part."""
    check_no_periods(policy, "there are no reports", "ask by statements, one a period", source)


def check_sums(policy: Policy) -> None:
    """Refuse to add up stored releases: different persons of several periods are no sum."""
    check_no_periods(
        policy,
        "combine = ONLY adds up nothing",
        "add them up in SQL, SELECT SUM(n) FROM (SELECT ..) of each period: each is a free repeat",
    )
