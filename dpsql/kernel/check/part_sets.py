"""Which parts of units rows can belong to: what conditions on a unit's date leave of them.

The *part* of a unit u follows from a value h(u), the date (or other value) in its rows of the home table:
`Facts.home` says that all of them have one. The *part set* of a relation is a set of parts such that no unit
of any other part owns a row of it. So no row of it depends on rows of such a unit, by what *owned* means:
without these rows the relation is the same. A number of its groups is a function of rows with a unit
(`unit_numbers`, `unit_groups`), so taking away all rows of such a unit changes nothing that is counted.

Where a unit is what one did in one period (`periods`), its part is that period, and h(u) is any date in it:
the rules below say of each row which parts its own date leaves.

*Home columns* of a relation hold h(u) in each row of the unit u; *padded* ones hold h(u) or NULL, where an
outer join has no partner.

*Scan* of the home table: the column itself is a home column, by the declared fact. Units without a row own
none here. Rows without a unit are none of any unit's, whatever their columns hold.

*Projection, windows, GROUP BY of the unit, joins and set operations* pass rows of a unit on to the same unit.
So a part set of what they read is one of the result: an INNER or SEMI JOIN on the unit has rows of units that
own rows of both sides, of a LEFT, RIGHT or ANTI JOIN the side that stays decides, of FULL JOIN and UNION
either, of INTERSECT both, of EXCEPT the left side. A column that is passed on holds what it held. Where an
outer join may put NULL in its place, it is padded.

*Conditions.* A row is left if its condition is true, so a unit with a row has h(u) for which that can be. Of
AND that is possible where it is for both sides, of OR where it is for one. A comparison of a home column with
a constant is true only of values on one side of it; `IS NULL` of a home column only where h(u) is NULL, but
of a padded one for any unit; every other comparison of a padded column is true only where it holds h(u). What
any other expression leaves is not looked at: all parts.

Where each value is a part, `=` and IN with constants are true only of units with one of these values, and NOT
IN only of others: a value that has a number is equal to no other one, and all that have none are one part. So
`=` with a value without a number leaves *outside*, and NOT IN never leaves that out. Of whole numbers,
comparisons leave the values on one side, and numbers far from 0 share a part.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from dpsql.kernel.check.certificate import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.tree import Between, Binary, Cast, Column, Constant, InList, IsNull, Not, Unary
from dpsql.kernel.unit_parts import (
    ALL_PARTS,
    LATER,
    NO_HOME,
    NULL_PART,
    Calendar,
    ListedValues,
    PartSet,
    WholeNumbers,
    both_parts,
    either_parts,
)
from dpsql.types import BOOLEAN, DATE, TIMESTAMP, VARCHAR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpsql.kernel.check.proof import Proof
    from dpsql.kernel.facts import Home
    from dpsql.kernel.tree import Expr

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?", re.ASCII)


def relation_at_home(proof: Proof, relation: Relation, table: str, alias: str) -> Relation:
    """Return the rows of a declared table with what is known of the parts of their units."""
    home = proof.facts.home
    name = None if home is None else home.column_of(table)
    if home is None or name is None or relation.kind is not Kind.OWNED:
        return relation
    column = f"{alias}.{name}"
    proof.note("parts of units", f"{name} of {table} tells the {home.every} of a {home.kind}")
    return relation._replace(parts=PartSet.of((0, NO_HOME - 1)), home=frozenset((column,)))


def narrow_parts(
    proof: Proof, relation: Relation, conditions: Iterable[Expr], asked: Iterable[PartSet | None] = ()
) -> Relation:
    """Return rows for which conditions hold, with the parts that can then be among them.

    `asked` are the parts of what they ask by subqueries, of which a unit has a row (`row_subqueries`).
    """
    home = proof.facts.home
    if relation.kind is Kind.OWNED:
        relation = relation._replace(parts=reduce(both_parts, asked, relation.parts))
    if home is None or relation.kind is not Kind.OWNED or not (relation.home or relation.padded):
        return relation
    found = ALL_PARTS if relation.parts is None else relation.parts
    before = found
    for condition in conditions:
        found &= _possible(condition, relation, home)
    if found == before:
        return relation
    proof.note("parts of a condition", f"of the units' {home.every}s these are left: {_words(home, found)}")
    return relation._replace(parts=found)


def _words(home: Home, parts: PartSet) -> str:
    return home.numbering.words(parts) or "none"


def parts_of_join(
    proof: Proof, a: Relation, kind: str, b: Relation | None, conditions: list[Expr], made: Relation
) -> Relation:
    """Return the join of rows with others of equal units, with the parts of these and with its home columns.

    `b` is None for public rows: each row of a unit then stays with its unit.
    """
    columns: tuple[Names, Names] = (a.home, a.padded)
    match kind:
        case _ if b is None:
            parts = a.parts
        case "INNER" | "CROSS":
            parts, columns = both_parts(a.parts, b.parts), (a.home | b.home, a.padded | b.padded)
        case "SEMI":
            parts = both_parts(a.parts, b.parts)
        case "ANTI":
            parts = a.parts
        case "LEFT":
            parts, columns = a.parts, (a.home, a.padded | b.home | b.padded)
        case "RIGHT":
            parts, columns = b.parts, (b.home, b.padded | a.home | a.padded)
        case _:
            every = a.home | a.padded | b.home | b.padded
            parts, columns = either_parts(a.parts, b.parts), (NONE, every)
    found = made._replace(parts=parts, home=columns[0], padded=columns[1])
    return narrow_parts(proof, found, conditions) if kind in _NARROWS else found


_NARROWS = frozenset({"INNER", "CROSS", "SEMI"})
"""Joins that leave rows of a unit for which the conditions hold."""


def parts_of_operation(
    word: str, a: Relation, b: Relation, *, same: bool
) -> tuple[PartSet | None, Names, Names]:
    """Return the part set of a set operation, its home columns and the padded ones.

    One of both sides may be public: its rows are of no unit. `same`: no column is converted.
    """
    sides = [each for each in (a, b) if each.kind is Kind.OWNED]
    union = word.startswith("UNION")
    if union:
        parts = either_parts(sides[0].parts, sides[-1].parts)
    elif word.startswith("INTERSECT") and len(sides) == 2:
        parts = both_parts(a.parts, b.parts)
    else:
        parts = a.parts
    if not same:
        return parts, NONE, NONE
    if not union:
        return parts, a.home, a.padded
    home = [{place for place, name in enumerate(each.columns) if name in each.home} for each in sides]
    held = [{p for p, name in enumerate(each.columns) if name in each.home | each.padded} for each in sides]
    exact = set[int].intersection(*home)
    padded = set[int].intersection(*held) - exact
    return parts, frozenset(a.columns[p] for p in exact), frozenset(a.columns[p] for p in padded)


def projected_columns(names: Names, places: dict[str, str]) -> Names:
    """Return the names that a projection gives to columns, of those that it passes on."""
    return frozenset(places[name] for name in names if name in places)


def _possible(condition: Expr, relation: Relation, home: Home) -> PartSet:
    """Return the parts of units for rows of which a condition can be true."""
    node = unwrap(condition)
    match node:
        case Binary("AND", left, right):
            return _possible(left, relation, home) & _possible(right, relation, home)
        case Binary("OR", left, right):
            return _possible(left, relation, home) | _possible(right, relation, home)
        case Binary(operator, left, right) if operator in _MIRRORED:
            found = _compare(operator, left, right, relation, home)
            return found or _compare(_MIRRORED[operator], right, left, relation, home) or ALL_PARTS
        case Between(operand, low, high):
            least = _compare(">=", operand, low, relation, home)
            most = _compare("<=", operand, high, relation, home)
            return (least or ALL_PARTS) & (most or ALL_PARTS)
        case InList(operand, items):
            sets = [_compare("=", operand, item, relation, home) for item in items]
            return PartSet.of(*(ends for each in sets for ends in (each or ALL_PARTS).ranges))
        case IsNull(operand):
            return _null(unwrap(operand), relation, negated=node.negated)
        case Not(operand):
            return _other_values(unwrap(operand), relation, home)
    return ALL_PARTS


def _other_values(node: Expr, relation: Relation, home: Home) -> PartSet:
    """Return the parts of units of which `NOT (x IN (..))` or `NOT (x = ..)` can be true."""
    found = PartSet.of((0, LATER))
    if isinstance(node, Binary) and node.operator == "=":
        node = InList(node.left, (node.right,))
    numbering = home.numbering
    if not (isinstance(node, InList) and isinstance(numbering, ListedValues)):
        return ALL_PARTS
    for item in node.items:
        compared = _compare("=", node.operand, item, relation, home)
        if compared is None:
            return ALL_PARTS
        found -= compared & numbering.listed
    return found


_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _null(operand: Expr, relation: Relation, *, negated: bool) -> PartSet:
    name = name_of(operand) if isinstance(operand, Column) else ""
    if negated and name in relation.home | relation.padded:
        return PartSet.of((0, LATER))
    if not negated and name in relation.home:
        return PartSet.of((NULL_PART, NULL_PART))
    return ALL_PARTS


def _compare(operator: str, column: Expr, other: Expr, relation: Relation, home: Home) -> PartSet | None:
    """Return the parts of dates that compare so with a constant; None: no home column, or no constant."""
    node = unwrap(column)
    if not isinstance(node, Column) or name_of(node) not in relation.home | relation.padded:
        return None
    calendar = home.numbering
    if isinstance(calendar, ListedValues):
        value = unwrap(other)
        kind, own = (BOOLEAN, bool) if home.type == "BOOLEAN" else (VARCHAR, str)
        known = value.value if isinstance(value, Constant) and value.type == kind else None
        return calendar.equal(known) if operator == "=" and isinstance(known, own) else None
    if isinstance(calendar, WholeNumbers):
        number = _whole_number(unwrap(other))
        if number is None:
            return None
        here = calendar.number(number + {">": 1, "<": -1}.get(operator, 0))
        return PartSet.of(
            (0 if operator in ("<", "<=") else here, LATER if operator in (">", ">=") else here)
        )
    moment = _moment(unwrap(other))
    if moment is None or not isinstance(calendar, Calendar):
        return None
    day = moment.date()
    here = calendar.number(day)
    if operator == "=":
        return PartSet.of((here, here))
    if operator in (">", ">="):
        if operator == ">" and home.dates and day < date.max:
            here = calendar.number(day + timedelta(days=1))
        return PartSet.of((here, LATER))
    if operator == "<" and moment == datetime(day.year, day.month, day.day) and day > date.min:
        here = calendar.number(day - timedelta(days=1))
    return PartSet.of((0, here))


def _whole_number(node: Expr) -> int | None:
    if isinstance(node, Unary) and node.operator == "-":
        number = _whole_number(unwrap(node.operand))
        return None if number is None else -number
    if not (isinstance(node, Constant) and node.type.integer and isinstance(node.value, int)):
        return None
    return int(node.value)


def _moment(node: Expr) -> datetime | None:
    """Return the moment that a constant is: a date or a time, written as every engine reads it."""
    if not (isinstance(node, Cast) and node.type in (DATE, TIMESTAMP)):
        return None
    inner = unwrap(node.operand)
    text = inner.value if isinstance(inner, Constant) else None
    shape = _DAY if node.type == DATE else _TIME
    if not isinstance(text, str) or shape.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
