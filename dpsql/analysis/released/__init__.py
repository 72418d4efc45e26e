"""The aggregates that a private statement may release, and the bounds on what one unit contributes to them.

Bounds are as declared, by default, or found privately.

``released_calls``       which calls are released; those of SUM, AVG, VARIANCE and STDDEV, with their bounds
``free_totals``          which sums are bounded by a unit's totals, and which averages are quotients
``unit_counts``          counts, of units, rows or different values
``few_groups``           the number of groups of undeclared keys, of which one unit changes few
``first_rows``           the sums of the first rows of all, in some order
``unit_values``          the numbers that are released for sums, averages and variances, on `analysis.grids`
``quantiles``            the calls of quantiles and extremes, and the cells of which the rows are counted
``conditional_counts``   counts by conditions, also where they are written as sums or means of zeros and ones
``released_numbers``     the types: `UnitNumber`, `ReleasedAggregate`, `AggregateCall`

A further number is a subclass of `UnitNumber` that says what the counting query counts (`build_counted`), the
function that compiles a call of it, and its name in `RULES` of ``released_calls``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache

from sqlglot import Dialect, exp

from dpsql.analysis.bound_ladders import Contribution, Ladder
from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import StatementCompiler, split_arguments
from dpsql.analysis.facts_of_values import has_negatives, is_never_negative
from dpsql.analysis.grids import prepare_for_search, split_steps
from dpsql.analysis.released.released_numbers import AggregateCall
from dpsql.analysis.typed_expression import Bounds, Typed
from dpsql.errors import Fix, with_article
from dpsql.estimates import decimal
from dpsql.kernel.tree import Call, Cast, Constant, IsNull, Node, Paren, kept, list_tables
from dpsql.kernel.tree.exact import whole
from dpsql.language import MARK, TITLE, AllGroups, Options, Selection, call_end, copy_tree
from dpsql.policy import Assumed, Policy
from dpsql.types import DOUBLE, HUGEINT, INTEGER, SqlType


def bound_rows(compiler: StatementCompiler, source: From, *, beyond: str = "weighted down") -> int | None:
    """Return how many rows of a unit count in all groups together: as written, else as the policy says.

    A bound of the policy is noted as an assumption, with what is done to rows `beyond` it. None: nobody said
    it.
    """
    if compiler.max_rows is not None:
        return compiler.max_rows
    known = compiler.rows_per_unit.get(id(source))
    if known is None:
        default = find_default(compiler.policy, source.source, "rows_per_unit")
        known = compiler.rows_per_unit[id(source)] = source, default, {}
    _, found, assumed = known
    if found is not None and beyond not in assumed:
        rows, verb = ("row", "counts") if found == 1 else ("rows", "count")
        of = f"{rows} of {with_article(name_unit(source))} {verb}, rows beyond are {beyond}"
        assumed[beyond] = Assumed(of, f"at most {found:,}", "policy")
    if found is not None:
        compiler.assume(assumed[beyond])
    return found


def bound_values(compiler: StatementCompiler, source: From, *, declared: int | None = None) -> int | None:
    """Return how many different values of a unit the policy lets count in a group; None: no bound.

    No more are counted than are `declared`: a unit with more has some that no key can have.
    """
    found = find_default(compiler.policy, source.source, "rows_per_unit")
    if found is not None:
        found = found if declared is None else max(1, min(found, declared))
        of = f"different value{'s' * (found != 1)} of {with_article(name_unit(source))} in a group"
        compiler.assume(Assumed(of, f"at most {found:,}", "policy"))
    return found


def find_default_rows(policy: Policy, source: From) -> int | None:
    """Return how many rows of a unit count, as the policy says; None if it does not."""
    return find_default(policy, source.source, "rows_per_unit")


def find_default_groups(compiler: StatementCompiler, source: From, selection: Selection) -> int | None:
    """Return in how many groups a unit counts where the statement does not say it; None: nobody does."""
    return find_ladder_groups(compiler, selection) or find_default(compiler.policy, source.source, "groups")


def find_ladder_groups(compiler: StatementCompiler, selection: Selection) -> int | None:
    """Return in how many groups of undeclared keys a unit counts, as a kept ladder of the keys says.

    It is for all groups. None: there is no such ladder.
    """
    whole = compiler.whole
    every = whole is not None and not whole.declared and isinstance(selection, AllGroups)
    return whole.groups_bound() if whole is not None and every else None


def bound_groups(
    compiler: StatementCompiler, source: From, selection: Selection, options: Options, *, one_group: bool
) -> int | None:
    """Return in at most how many groups a unit is, or may count; None if nobody says it."""
    return (
        1 if one_group else options.max_groups_contributed or find_default_groups(compiler, source, selection)
    )


def state_groups(source: From, groups: int) -> Assumed:
    """Return the assumption that a unit counts in a given number of groups."""
    return Assumed(
        f"group{'s' * (groups != 1)} of {with_article(name_unit(source))}", f"at most {groups:,}", "policy"
    )


def find_default(policy: Policy, source: Node, name: str) -> int | None:
    """Return the largest bound of the private tables of FROM that have one, else the bound in `[defaults]`.

    None if there is no number, also where one of the tables says AUTO.
    """
    own = [
        t for t in map(policy.table, list_tables(source)) if t is not None and getattr(t, name) is not None
    ]
    if not own:
        default: int | None = getattr(policy.defaults, name)
        return default
    numbers = [policy.most(t, name) for t in own]
    known = [number for number in numbers if number is not None]
    return max(known) if len(known) == len(numbers) else None


def find_unit_column(source: From) -> tuple[str, str] | None:
    """Return the alias of a table and the name of its column that holds the unit; None if none is visible."""
    for origin in source.scope.origins:
        for name, column in zip(origin.names, origin.columns, strict=True):
            if column.unit.held:
                return origin.alias, name
    return None


def name_unit(source: From) -> str:
    """Return the name of the unit's column, for messages; `unit` if none is visible."""
    found = find_unit_column(source)
    return found[1] if found is not None else "unit"


_LONGEST = 60
"""Characters after which the text of an argument is cut."""


def write_argument(argument: exp.Expr) -> str:
    """Return an argument as the statement writes it, on one line and shortened."""
    text = argument.meta_get(TITLE) or _dialect().generate(copy_tree(argument), copy=False, comments=False)
    text = re.sub(f"(?i){MARK}", "", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."


@cache
def _dialect() -> Dialect:
    return Dialect.get_or_raise("duckdb")


def write_ends(sql_type: SqlType, low: Fraction, high: Fraction) -> str:
    """Return two bounds in words: of dates and timestamps as such, from days and microseconds since 1970.

    >>> write_ends(SqlType("DATE"), Fraction(0), Fraction(31))
    '1970-01-01 to 1970-02-01'
    """
    return f"{_write_end(sql_type, low)} to {_write_end(sql_type, high)}"


def _write_end(sql_type: SqlType, end: Fraction) -> str:
    match sql_type.name:
        case "DATE":
            return str(date(1970, 1, 1) + timedelta(days=int(end)))
        case "TIMESTAMP" | "TIMESTAMPTZ":
            moment = datetime(1970, 1, 1) + timedelta(microseconds=int(end))
            return f"{moment}+00" if sql_type.name == "TIMESTAMPTZ" else str(moment)
    return decimal(end)


def write_bound(call: AggregateCall, bound: str, ends: str, guess: str) -> tuple[str, Fix | None]:
    """Return an aggregate's call with a bound added, for a hint, and the fix that adds it to the statement.

    There is no fix for a call that has a named argument already.
    """
    source, start = call.compiler.source, call.compiler.source.position(call.node)
    end, added = call_end(source, start), f", {bound} => {ends}"
    if end < 0 or split_arguments(call.node)[0]:
        value = "*" if call.name.startswith("count") else "x"
        return f"{call.name.upper()}({value}{added})", None
    text = " ".join(source.text[start:end].split())
    if text.endswith("("):
        added = f"*{added}"
    return f"{text}{added})", Fix(added, end, end, guess=guess)


def assume_cut(call: AggregateCall, argument: str, sql_type: SqlType, bounds: Bounds) -> None:
    """Note for the answer that an argument's values are cut, if the policy declares its bounds."""
    if bounds.declared:
        ends = write_ends(sql_type, bounds.low, bounds.high)
        call.compiler.assume(Assumed(f"values of {argument} outside {ends} are cut", where="policy"))


HIGHEST = 83
"""The largest bound is 2 to this power, of 2^20 rows with 2^63 least steps; those of a DOUBLE are 2^-20."""
HIGHEST_ROWS = 20
"""The most rows of a unit that may count are 2 to this power."""


def is_auto(named: Sequence[exp.Expr]) -> bool:
    """Return whether the named arguments of a call are `contribution_bounds => AUTO` alone."""
    value = named[0].args.get("expression")
    word = value.name if isinstance(value, (exp.Column, exp.Var)) else ""
    return len(named) == 1 and named[0].name.lower() == "contribution_bounds" and word.upper() == "AUTO"


def make_rows_ladder(call: AggregateCall, most: int | None = None) -> Ladder:
    """Return the bounds on how many rows of a unit count, up to the least power of two from `most` on."""
    row = kept(whole(1), call.condition())
    top = HIGHEST_ROWS if most is None else min(HIGHEST_ROWS, (most - 1).bit_length())
    ends = most is not None and most <= 1 << top
    return Ladder(Contribution.ROWS, row, 0, Fraction(1), top, call.by_row, ends)


def search_rows(call: AggregateCall, most: int | None) -> int:
    """Return how many rows of a unit count, found privately; at most as many as somebody said.

    A bound that the statement writes is taken as it is.
    """
    if most is not None and (call.compiler.max_rows is not None or most == 1):
        return most
    found = call.compiler.bound(make_rows_ladder(call, most))
    return found if most is None else min(most, found)


def is_signed(value: Typed) -> bool:
    """Return whether values below 0 are to be expected, as far as the type and the policy say.

    The policy's bounds are no promise: only where values are cut at 0 is a sum of them never negative.
    """
    return (value.bounds is None or value.bounds.low < 0) and has_negatives(value.type)


def make_ladder(call: AggregateCall, value: Typed, of: Contribution) -> Ladder:
    """Return the bounds on what one unit contributes to an aggregate of values."""
    row, scale, step = prepare_for_search(value.guarded_node, value.type)
    condition, total = call.condition(), of is Contribution.TOTAL
    counted = kept(row, condition)
    if value.type == DOUBLE and total:
        near, far = (kept(each, condition) for each in split_steps(value.guarded_node))
        signed = not is_never_negative(value, call.compiler.columns)
        made = Ladder(of, near, scale, step, HIGHEST, call.by_row, type=value.type, far=far, signed=signed)
        if call.compiler.policy.engine != "duckdb":
            return made
        return replace(made, small=kept(value.guarded_node, condition))
    if value.type == DOUBLE:
        return Ladder(of, counted, scale, step, HIGHEST, call.by_row, type=value.type)
    power = find_power(value.type)
    single = call.one_row or call.by_row
    # A value beyond BIGINT has no type in an answer.
    top = min(power + (0 if single else HIGHEST_ROWS), HIGHEST) if total else min(power, 63)
    ends = power <= top and (single or not total)
    signed = not is_never_negative(value, call.compiler.columns)
    return Ladder(of, counted, scale, step, top, call.by_row, ends, value.type, signed=signed)


def find_power(sql_type: SqlType) -> int:
    """Return the least power of two that no value of an exact type exceeds, in its least steps."""
    if sql_type == HUGEINT:
        return 127
    if sql_type.name == "DECIMAL":
        return int(10**sql_type.precision - 1).bit_length()
    return sql_type.bits - sql_type.signed


def cut_at_zero(call: AggregateCall, value: Typed) -> tuple[Typed, Fraction]:
    """Return an argument of SUM whose values are 0 where they are below, if none should be, and its sign.

    The policy says that none is below 0: the kernel takes what the query does for it. DOUBLEs in groups are
    cut in their steps.
    """
    if not has_negatives(value.type):
        return value, Fraction(0)
    if not is_never_negative(value, call.compiler.columns):
        return value, Fraction(-1)
    if value.type != DOUBLE or not call.compiler.keyed:
        call.conditions.append(Paren(IsNull(value.guarded_node, negated=True)))  # GREATEST leaves NULL out
        if value.type.integer and value.type.bits < INTEGER.bits:  # as a constant is
            value = replace(value, node=Cast(value.node, INTEGER), type=INTEGER)
        value = replace(value, node=Call("GREATEST", (value.node, Constant(0, value.type))))
    return value, Fraction(0)


def search_ends(call: AggregateCall, value: Typed) -> tuple[Fraction, Fraction]:
    """Return the bounds of values that are found privately, within the ends of their type.

    The least is 0 without a search where the policy says that no value is below it.
    """
    highest = make_ladder(call, value, Contribution.HIGHEST)
    high, low = highest.step * call.compiler.bound(highest), Fraction(0)
    if is_signed(value) and not is_never_negative(value, call.compiler.columns):
        lowest = make_ladder(call, value, Contribution.LOWEST)
        low = -lowest.step * call.compiler.bound(lowest)
    if value.type.name == "DECIMAL":
        most = 10**value.type.precision - 1
        low, high = max(low, -most * highest.step), min(high, most * highest.step)
    elif value.type != DOUBLE:
        low, high = max(low, Fraction(-(1 << 63))), min(high, Fraction((1 << 63) - 1))
    return low, high if high > low else high + highest.step
