"""Checked numbers: what a CHECK statement counts, what is expected of each group, and its answer.

A check has a SELECT of one aggregate, by groups of a public domain or without. What is counted of it is a
private statement as any other; its price is the stream's. A count or a sum is compared itself. Of an average
and a quantile the statement counts sums that are above 0 where it is off (`language.check_statements`):

* an average is above e where the sum of x - e is above 0, and below where that of e - x is;
* a quantile of rank p is above b where the values above b are more than a share of 1 - p: where the sum of p
  for each of them and of p - 1 for each other value is above 0; and likewise below.

So no private number of rows is needed, and each statistic is a sum that the kernel certifies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from dpsql.analysis import complete_options, is_private, put_views
from dpsql.composition.planned_answers import StatementPlanner, plan_answer, write_literal
from dpsql.composition.planned_count import PlannedCount
from dpsql.composition.prepared import PreparedCheck, PreparedPublic
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.kernel.mechanisms import CheckStreamPlan, Statistic
from dpsql.language import AllGroups, Check, OpenChecks, Query, Scalar, copy_tree, write_name
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.database import Engines
    from dpsql.kernel.mechanisms import Direction
    from dpsql.language import Options

_DIRECTIONS: dict[str, Direction] = {"BOTH": "BOTH", "AT_MOST": "UP", "AT_LEAST": "DOWN"}
_BOUNDS = ("max_rows_contributed", "fresh")
"""The options of the SELECT of a check; its answer is of one group, so of groups there is no bound."""
MOST_GROUPS = 10_000
"""How many groups one statement checks at most."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of the number of one group, and the place of the group among all."""

    place: int
    low: Fraction | None
    high: Fraction | None
    tolerance: Fraction

    @property
    def unknown(self) -> bool:
        """Whether no value is expected: the group's number is then released, and counts as a miss."""
        return self.low is None and self.high is None


def expected_of(
    prepared: PreparedCheck,
    keys: Sequence[pa.Array],
    groups: int,
    tolerance: Fraction | None,
    last: pa.Table | None = None,
    guess: Callable[[tuple[Any, ...]], Fraction] | None = None,
) -> list[Expected]:
    """Return the expected interval of each group that a check compares, in the order of checking.

    `keys` are those of all groups of the domain; `tolerance` is that of checks that say none. `last` has the
    last values of groups, for a check that expects them: groups that have none come last. `guess` returns
    what models expect of a group.
    """
    check = prepared.check
    if check.expected.last or guess is not None:
        places = {row: place for place, row in enumerate(_rows_of(keys, groups))}
        known = _last_values(last) if guess is None else {row: guess(row) for row in places}
        found = [
            Expected(places[row], value, value, _tolerance_of_moving(check, value, tolerance))
            for row, value in known.items()
            if row in places
        ]
        rest = sorted(place for row, place in places.items() if row not in known)
        return found + [Expected(place, None, None, Fraction(0)) for place in rest]
    if prepared.table is None:
        own = check.expected
        each = (own.low, own.high, _tolerance(own.tolerance, tolerance))
        return [Expected(place, *each) for place in range(groups)]
    names = {name.lower(): name for name in prepared.table.column_names}
    columns = [prepared.table.column(names[key.lower()]) for key in prepared.keys]
    rows = _rows_of(columns, prepared.table.num_rows)
    places = {row: place for place, row in enumerate(_rows_of(keys, groups))}
    values = prepared.table.column(names[check.column.lower()]).to_pylist()
    tolerances = prepared.table.column(names["tolerance"]).to_pylist() if "tolerance" in names else None
    found = list[Expected]()
    for i, row in enumerate(rows):
        if row in places and values[i] is not None:
            value = Fraction(str(values[i]))
            of_row = None if tolerances is None else tolerances[i]
            own_width = check.expected.tolerance if of_row is None else Fraction(str(of_row))
            found.append(Expected(places[row], value, value, _tolerance(own_width, tolerance)))
    return found


def _last_values(last: pa.Table | None) -> dict[tuple[Any, ...], Fraction]:
    """Return the last values of groups by their keys, in order."""
    if last is None:
        return {}
    columns = [last.column(place).to_pylist() for place in range(last.num_columns)]
    return {row[:-1]: Fraction(row[-1]) for row in zip(*columns, strict=True)}


def _tolerance_of_moving(check: Check, value: Fraction, usual: Fraction | None) -> Fraction:
    share = check.expected.share
    return _tolerance(check.expected.tolerance, usual) if share is None else abs(value) * share


def most_checked(prepared: PreparedCheck) -> int:
    """Return how many groups a check has at most, before any key is read."""
    plan = prepared.counting.plan
    if prepared.table is not None:
        rows: int = prepared.table.num_rows
        return rows
    return (plan.domain_size or 1) if prepared.keys else 1


def check_tolerance(prepared: PreparedCheck, usual: Fraction | None) -> None:
    """Refuse a check without a tolerance, in a stream that has none."""
    if prepared.check.expected.share is not None:
        return
    own: list[Any] = [prepared.check.expected.tolerance]
    rows = own
    if prepared.table is not None:
        name = next((each for each in prepared.table.column_names if each.lower() == "tolerance"), None)
        given = [None] if name is None else prepared.table.column(name).to_pylist()
        rows = [own[0] if each is None else each for each in given]
    if usual is None and None in rows:
        raise ProgrammingError(
            "the check has no tolerance, nor has its stream: EXPECT .. TOLERANCE 50, or "
            "OPEN CHECKS .. OPTIONS (.., tolerance = 50)"
        )


def widest_tolerance(prepared: PreparedCheck, usual: Fraction | None) -> Fraction | None:
    """Return the largest tolerance of a check in what its numbers are measured in; None: it is not known."""
    if prepared.check.kind != "sum" or prepared.check.expected.share is not None:
        return None
    if prepared.table is None:
        return _tolerance(prepared.check.expected.tolerance, usual)
    names = {name.lower(): name for name in prepared.table.column_names}
    rows = prepared.table.column(names["tolerance"]).to_pylist() if "tolerance" in names else [None]
    widths = (
        _tolerance(prepared.check.expected.tolerance if each is None else Fraction(str(each)), usual)
        for each in rows
    )
    return max(widths, default=None)


def statistic_of(prepared: PreparedCheck, expected: Expected) -> Statistic:
    """Return the statistic that tells how far a group's number lies outside its expected interval."""
    counts = prepared.counting.plan.counts
    if expected.unknown:
        return Statistic(())
    if prepared.check.kind == "sum":
        step, terms = counts[0].step, []
        if expected.low is not None:
            terms.append((0, -step, expected.low - expected.tolerance))
        if expected.high is not None:
            terms.append((0, step, -expected.high - expected.tolerance))
        return Statistic(tuple(terms))
    # The tolerance of an average is in what is counted of it.
    beyond = Fraction(0) if prepared.check.kind == "average" else expected.tolerance
    return Statistic(tuple((i, count.step, -beyond) for i, count in enumerate(counts)))


def bound_of(prepared: PreparedCheck) -> Fraction:
    """Return the sensitivity of a check's statistics: the most by which one unit moves one of them."""
    return max(count.bound * count.step for count in prepared.counting.plan.counts)


def plan_stream(opened: OpenChecks, share: Fraction | None = None) -> CheckStreamPlan:
    """Plan the stream of an OPEN CHECKS statement; its answers are Laplace or better at `answer_epsilon`.

    `share` is that of the threshold, of a stream that was planned before.
    """
    direction = _DIRECTIONS[opened.sides]
    return CheckStreamPlan.plan(
        opened.epsilon, opened.misses, answers=opened.answers, direction=direction, threshold=share
    )


def prepare_check(planner: StatementPlanner, check: Check, engines: Engines) -> PreparedCheck:
    """Analyse a check; refuse what has no statistic that is certified. Nothing is read or charged."""
    query, refuse = check.query, check.query.source.refuse
    for name, at in query.options.at.items():
        if name not in _BOUNDS:
            raise refuse(
                f"the stream pays for a check, so its SELECT has no {name}",
                at,
                "it takes " + ", ".join(_BOUNDS),
            )
    options = complete_options(query.options, replace(planner.defaults, epsilon=Fraction(1), error=None))
    counting = _plan_groups(planner, check, engines, options)
    plan = counting.plan
    whole = isinstance(plan.selection, Scalar) or (
        isinstance(plan.selection, AllGroups) and plan.selection.limit is None
    )
    if not whole or plan.partitions is not None:
        raise refuse("a check is of one number or of all groups, without a selection", None)
    if (plan.domain_size or 0) > MOST_GROUPS:
        raise refuse(f"one statement checks at most {MOST_GROUPS:,} groups", None)
    if plan.ladders:
        raise refuse(
            "a stream searches no bounds: how much one unit counts has to be known",
            None,
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) .., or a policy's bound",
        )
    keys = tuple(each.name for each in plan.outputs if each.kind == "key")
    numbers = [each for each in plan.outputs if each.kind != "key"]
    one = all(each.kind == "count" and each.formula is None for each in numbers)
    if not one or len(plan.counts) != len(numbers) or (check.kind == "sum" and len(numbers) != 1):
        others = [each for each in query.tree.expressions if each.alias_or_name not in (*keys, check.column)]
        what, hint = "a check has one number, and the keys of its groups", "each number in a CHECK of its own"
        raise refuse(what, others[-1] if others else None, hint)
    if len(keys) != len(plan.key_types) or len({key.lower() for key in keys}) < len(keys):
        raise refuse("a check shows each key of its groups once", None)
    _refuse_names([*keys, check.column], check)
    table = _read_expectations(planner, check, keys, engines) if check.expected.table else None
    made = PreparedCheck(check, counting, keys, table)
    plan_answer(planner, made, None, Fraction(1), engines)  # refused before anything is asked
    return made


def _plan_groups(planner: StatementPlanner, check: Check, engines: Engines, options: Options) -> PlannedCount:
    """Plan what a check counts: keys without a declared domain have the values that are expected.

    A table of expectations is public, so its keys are a domain as any that a statement lists: without delta.
    """
    refused: QueryRefused | None = None
    query: Query | None = check.statistics
    while query is not None:
        try:
            found = PlannedCount.of(query, planner.policy, engines, options)
        except QueryRefused as error:
            if refused is not None:
                break
            refused = error
        else:
            plan = found.plan
            if plan.domain_size is not None and not (plan.sparse or plan.existence or plan.values):
                return found
        query = _list_keys(planner, check, engines) if query is check.statistics else None
    raise refused or check.query.source.refuse(
        "the groups of a check are public: their keys need a declared domain",
        None,
        "EXPECT .. FROM a public table, whose keys are the groups",
    )


def _list_keys(planner: StatementPlanner, check: Check, engines: Engines) -> Query | None:
    """Return what a check counts, of the groups alone that its table of expectations has; None: no table."""
    if not check.expected.table:
        return None
    query = check.statistics
    tree, asked = copy_tree(query.tree), check.query.tree
    if not isinstance(tree, exp.Select) or not isinstance(asked, exp.Select) or not tree.args.get("group"):
        return None
    items = {each.alias_or_name: each for each in asked.expressions}
    keys = {name: each for name, each in items.items() if name.lower() != check.column.lower()}
    table = _read_expectations(planner, check, tuple(keys), engines)
    columns = {name.lower(): table.column(name) for name in table.column_names}
    for name, each in keys.items():
        values = [value for value in columns[name.lower()].unique().to_pylist() if value is not None]
        if not 0 < len(values) <= MOST_GROUPS:
            raise query.source.refuse(f"one statement checks at most {MOST_GROUPS:,} groups", None)
        tree.where(
            exp.In(this=each.unalias().copy(), expressions=list(map(write_literal, values))), copy=False
        )
    return replace(query, tree=tree)


def _read_expectations(
    planner: StatementPlanner, check: Check, keys: tuple[str, ...], engines: Engines
) -> pa.Table:
    """Read the public table of expectations, with a column for each key and one named as what is checked."""
    from dpsql.language import parse  # noqa: PLC0415

    name, source = check.expected.table, check.source
    written = name.startswith("(")
    own = None if written else planner.policy.table(name)
    parsed = parse(f"SELECT * FROM {name if written else write_name(name)}")
    if written and isinstance(parsed, Query):
        parsed = put_views(parsed, planner.policy)
    public = written or (own is not None and own.public)
    if not isinstance(parsed, Query) or not public or is_private(parsed, planner.policy):
        raise source.refuse(
            f"{name[:60]} is no public table: expectations are public, or a unit could be in them",
            check.expected.at,
            "EXPECT .. FROM a table that the policy declares public, or EXPECT .. = 1200 TOLERANCE 50",
        )
    prepared = planner.query(parsed.source.text, parsed, engines)
    assert isinstance(prepared, PreparedPublic)  # noqa: S101  it reads no private table
    found = engines.schema_database.run(prepared.sql, prepared.text)
    known = {column.lower() for column in found.column_names}
    missing = [key for key in (*keys, check.column) if key.lower() not in known]
    if missing:
        raise source.refuse(
            f"the table {name[:60]} has no column {missing[0][:60]}",
            check.expected.at,
            "it has the keys of the groups, the expected number under its name, and perhaps tolerance",
        )
    columns = {column.lower(): found.column(column) for column in found.column_names}
    groups = _rows_of([columns[key.lower()] for key in keys], found.num_rows)
    tolerances = columns["tolerance"].to_pylist() if "tolerance" in columns else []
    amounts = [*columns[check.column.lower()].to_pylist(), *tolerances]
    if len(known) < found.num_columns:
        raise source.refuse(f"the table {name[:60]} has two columns of one name", check.expected.at)
    if len({*groups}) < len(groups):
        what = "a group twice" if keys else f"{len(groups)} rows: without groups, one number is expected"
        raise source.refuse(f"the table {name[:60]} has {what}", check.expected.at)
    if not all(each is None or _is_number(each) for each in amounts):
        raise source.refuse(f"the expectations of {name[:60]} are numbers", check.expected.at)
    if any(each is not None and each < 0 for each in tolerances):
        raise source.refuse(f"a tolerance of {name[:60]} is below 0", check.expected.at)
    return found


def _refuse_names(names: Sequence[str], check: Check) -> None:
    """Refuse a key or a number that is named as another column of the answer, or of what is expected."""
    taken = {"checked", "expected", "low", "high", "gap", *(["tolerance"] if check.expected.table else [])}
    for name in names:
        if name.lower() in taken:
            message = f"the answer of a check has another column {name[:60]}: give yours another name"
            raise check.query.source.refuse(message, None)
        taken.add(name.lower())


def _rows_of(columns: Sequence[pa.ChunkedArray | pa.Array], number: int) -> list[tuple[Any, ...]]:
    """Return the keys of that many rows; without keys there is nothing in them."""
    return list(zip(*(column.to_pylist() for column in columns), strict=True)) if columns else [()] * number


def _is_number(value: Any) -> bool:  # noqa: ANN401  whatever a table has
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and isfinite(value)


def _tolerance(own: Fraction | None, usual: Fraction | None) -> Fraction:
    found = usual if own is None else own
    return Fraction(0) if found is None else found
