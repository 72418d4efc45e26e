"""Units of one period each, such as a patient in one week, and tables of the same kind without a period.

Let a unit be (p, w): what the person p did in the period w. D - u is D without the rows of u in all tables
with periods; *standing* tables, those of the kind without a period, are the same in both.

*Scan.* By the lemma of `tree.period_units`, the rows of a table with periods with one value of the expression
there are those of one (p, w), and no others. So it is owned by that expression. Of all rows of a unit the
person is the same, and so is the period of the date, or a longer one: `date_trunc` of it reads nothing that
differs within the unit. Its part is that of its period, whatever else is stored. All other rules of relations
know a unit as a value by which rows are told apart, and hold as they are, where the units that they compare
are both of this sort: (p, w) has the rows of a subquery, a join, a set operation where (p, w) are equated.

*Standing rows.* Those of a person q, by themselves, are owned by q: taking away q is another pair of
neighbours, and what is counted of standing tables alone is charged to all periods.

*Joins with standing rows on the person.* Let a be owned by (p, w) and s by q, and let p = q be a condition.
Each row of a has the partners that it has among the standing rows, which are the same without u; so of
INNER, LEFT, SEMI and ANTI JOIN, each with a on the side that stays, the rows of (p, w) are a function of its
own rows and of what is there in both neighbours: owned by (p, w). Since p = q, nobody's rows meet standing
rows of others: taking away all of a person, standing rows too, is taking away all of its (p, w), one after
the other. Standing rows that a LEFT JOIN keeps, or that SEMI and ANTI keep or leave out, by rows with periods
are refused: taking away (p, w) would change a row of q, which has other periods, too. So it is with
subqueries: rows of (p, w) may ask for standing rows of p, and standing rows for none of (p, w).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.kernel.check.certificate import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.part_sets import parts_of_join, relation_at_home
from dpsql.kernel.check.proof import reads_of, subqueries
from dpsql.kernel.facts import ByPeriod
from dpsql.kernel.tree import Column, Expr, Try, Window, parts
from dpsql.kernel.tree.period_units import is_of_period, unit_in_period
from dpsql.types import DATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpsql.kernel.check.proof import Proof
    from dpsql.kernel.facts import Home, TableFacts
    from dpsql.kernel.tree import Join


KEPT = ("INNER", "CROSS", "LEFT", "SEMI", "ANTI")
"""The joins of rows with periods, on the left, with standing rows."""
KEPT_ON_THE_RIGHT = ("INNER", "CROSS", "RIGHT")
"""Those with rows with periods on the right."""


def relation_of_scan(proof: Proof, made: Relation, table: TableFacts, alias: str) -> Relation:
    """Return the rows of a table with periods, each owned by its person in the period of its date."""
    by, home = table.unit, proof.facts.home
    if not isinstance(by, ByPeriod) or home is None or not home.periods or home.kind != table.kind:
        return proof.refuse("units of periods without parts")
    dates = table.types.get(by.date) == DATE
    if home.column_of(table.name) != by.date or home.every != by.every or home.dates is not dates:
        return proof.refuse("parts that are not the periods of units")
    person, date = (Column(alias, name, stored=True) for name in (by.column, by.date))
    unit = unit_in_period(person, date, by.every, dates=dates)
    proof.note("scan of periods", f"a row of {table.name} belongs to a {table.kind} in one {by.every}")
    fixed = [person, date] if dates and by.every == "day" else [person]
    owned = made._replace(
        unit=frozenset((unit,)),
        depends=((NONE, frozenset(map(name_of, fixed))),),
        person=frozenset((person,)),
        periods=True,
    )
    return relation_at_home(proof, owned, table.name, alias)


def reads_within(proof: Proof, expr: Expr, relation: Relation) -> Names:
    """Return the columns that tell which value an expression has, among the rows of one unit."""
    home = proof.facts.home
    if not relation.periods or home is None or not relation.home or subqueries(expr):
        return reads_of(expr)
    return _reads_within(expr, relation, home)


def _reads_within(node: Expr, relation: Relation, home: Home) -> Names:
    date = is_of_period(node.operand if isinstance(node, Try) else node, home.every)
    if date is not None and name_of(date) in relation.home:
        return NONE
    if isinstance(node, Column):
        return frozenset((name_of(node),))
    below = parts(node)
    if isinstance(node, Window) or not all(isinstance(part, Expr) for part in below):
        return reads_of(node)
    return NONE.union(*(_reads_within(part, relation, home) for part in below if isinstance(part, Expr)))


def equates_person(proof: Proof, pairs: Iterable[tuple[Expr, Expr, bool]], a: Relation, s: Relation) -> bool:
    """Return whether conditions equate the person of rows with periods and that of standing rows."""
    return any(
        not null and x in a.person and y in s.unit and proof.keeps(x, y) and proof.keeps(y, x)
        for x, y, null in pairs
    )


def relation_of_standing_join(
    proof: Proof,
    sides: tuple[Relation, Relation],
    join: Join,
    pairs: Sequence[tuple[Expr, Expr, bool]],
    conditions: list[Expr],
    made: Relation,
) -> Relation:
    """Return the join of rows with periods and of standing rows; `made` is what is known of its columns."""
    kind = join.kind or "INNER"
    own, standing = sides if sides[0].periods else sides[::-1]
    if kind not in (KEPT if own is sides[0] else KEPT_ON_THE_RIGHT):
        return proof.refuse("standing rows that rows of periods keep or leave out", join)
    if not equates_person(proof, pairs, own, standing):
        return proof.refuse("a join of rows of periods and standing rows without equal persons", join)
    proof.note("join with standing rows", f"each row keeps its unit in the {kind} JOIN on the person")
    inner = kind in ("INNER", "CROSS")
    found = made._replace(
        kind=Kind.OWNED,
        unit=own.unit,
        person=own.person | standing.unit if inner else own.person,
        periods=True,
        strays=own.strays,
    )
    return parts_of_join(proof, own, "INNER" if inner else kind, None, conditions, found)


def check_same_sort(proof: Proof, a: Relation, b: Relation) -> None:
    """Refuse units that are compared though those of one side alone are of one period each."""
    if a.periods != b.periods:
        proof.refuse("units of periods and units without", None)


def common_person(a: Relation, b: Relation) -> frozenset[Expr]:
    """Return the columns that hold the person of each row on both sides; public rows have none."""
    if a.kind is not b.kind:
        return frozenset()
    held = [{p for p, n in enumerate(each.columns) if Column("", n) in each.person} for each in (a, b)]
    return frozenset(Column("", a.columns[p]) for p in held[0] & held[1])
