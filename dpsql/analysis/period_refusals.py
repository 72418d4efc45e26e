"""What is refused where a unit is what one did in one period, such as a patient in one week."""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.compiled_relation import Owner
from dpsql.errors import QueryRefused, with_article
from dpsql.kernel.check import Certificate
from dpsql.language import Query, StatementText


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
