"""Statements over all rows of a private table, and what the bounds of their numbers leave out.

Subqueries, views and common table expressions may stand between, if each of them lists columns and drops and
repeats no row. A LEFT JOIN of a public table on all columns of a unique set of it does neither, if these have
the types of the columns that they are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dpsql.analysis.bound_ladders import (
    UNDECLARED_GROUPS,
    CutValues,
    LeftOut,
    WholeTable,
    groups_by,
    total_of,
)
from dpsql.analysis.compiler import (
    StatementCompiler,
    find_cte,
    list_declared_tables,
    list_equated_columns,
)
from dpsql.analysis.large_domains import count_groups
from dpsql.analysis.public_domains import Candidates
from dpsql.analysis.released import find_ladder_groups
from dpsql.analysis.released.quantiles import CellRows
from dpsql.analysis.released.released_numbers import CappedSum, Moment, ReleasedAggregate, RowSum
from dpsql.analysis.released.unit_counts import BoundedRows, Units, UnitsOfFew, WeightedRows
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Typed
from dpsql.kernel.tree import Column
from dpsql.language import Cut, Options, Selection, TopK, find_nodes, list_conjuncts, list_given
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitRow, UnitVia, fold

_PLAIN = {"expressions", "from_", "with_", "where", "joins"}
"""The parts of a SELECT that may drop no row; the last two are looked at."""
_NAMED = {"this", "db", "catalog", "alias"}
"""The parts of a table's name in FROM that change none of its rows."""


@dataclass(frozen=True, slots=True)
class WholeSource:
    """A private table of which all rows are read."""

    table: Table
    in_place: bool
    """Whether its columns have the places that the table declares."""


def find_whole_source(compiler: StatementCompiler, select: exp.Select) -> WholeSource | None:
    """Return the private table of which a SELECT reads all rows, each once; None: it may drop or repeat some.

    A table whose rows are units has no rows of units to bound.
    """
    first, where = select.args.get("from_"), select.args.get("where")
    if first is None or (where is not None and not _is_true(where.this)):
        return None
    joins, found = select.args.get("joins") or [], _read_item(compiler, first.this)
    if joins and (found is None or not _is_name(first.this) or find_cte(first.this) is not None):
        return None
    if found is not None and not all(
        _is_keeping_rows(compiler, join, first.this, found.table) for join in joins
    ):
        return None
    return found if found is None or not joins else WholeSource(found.table, in_place=False)


def find_declared_name(catalog: Catalog, table: str, value: Typed) -> str | None:
    """Return the declared name of a column that FROM may have renamed; None for other expressions.

    FROM may call it otherwise: its place tells which one it is. None for any other expression.
    """
    node = value.node
    if not isinstance(node, Column) or not node.name.removeprefix("c").isdigit():
        return None
    declared, place = catalog.columns(table), int(node.name.removeprefix("c"))
    return declared[place][0] if place < len(declared) and declared[place][1] == value.type else None


def _read_item(compiler: StatementCompiler, node: exp.Expr) -> WholeSource | None:
    """Return the table that an item of FROM reads all rows of."""
    if isinstance(node, exp.Subquery):
        return _read_subquery(compiler, node.this) if _has_only(node, {"this", "alias"}) else None
    if not _is_name(node):
        return None
    cte = find_cte(node)
    if cte is not None:
        recursive = isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive")
        return None if recursive else _read_subquery(compiler, cte.this)
    table = compiler.policy.table(node.name) if node.name.isascii() else None
    if table is None or table.public or isinstance(table.unit, UnitRow):
        return None
    return WholeSource(table, in_place=True)


def _read_subquery(compiler: StatementCompiler, query: exp.Expr) -> WholeSource | None:
    """Return the table that a SELECT in FROM has all rows of: it lists columns, and does nothing else."""
    if not isinstance(query, exp.Select) or not _has_only(query, _PLAIN):
        return None
    listed = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    stars = [item for item in listed if isinstance(item, exp.Star)]
    if any(any(star.args.values()) for star in stars) or not all(
        isinstance(item, (exp.Star, exp.Column)) for item in listed
    ):
        return None
    found = find_whole_source(compiler, query)
    if found is None:
        return None
    return WholeSource(found.table, in_place=found.in_place and len(listed) == len(stars) == 1)


def _is_keeping_rows(compiler: StatementCompiler, join: exp.Expr, first: exp.Table, private: Table) -> bool:
    """Whether a join is LEFT, of a public table, of which it compares all columns of a unique set.

    It compares them with columns of the private table that have the same types: where `=` converts a value,
    it may be equal to several.
    """
    node = join.this
    if (join.args.get("side") or "").upper() != "LEFT" or join.args.get("kind") or join.args.get("method"):
        return False
    if not _is_name(node) or find_cte(node) is not None:
        return False
    table = compiler.policy.table(node.name) if node.name.isascii() else None
    if table is None or not table.public:
        return False
    pairs = {(fold(name.name), fold(name.name)) for name in join.args.get("using") or []}
    names, condition = [fold(each.alias or each.name) for each in (node, first)], join.args.get("on")
    for equal in list_conjuncts(condition):
        if isinstance(equal, exp.EQ):
            pairs |= _read_pair(equal, *names)
    columns = (compiler.catalog.columns(each.name) for each in (table, private))
    own, other = ({fold(name): kind for name, kind in each} for each in columns)
    compared = {mine for mine, theirs in pairs if mine in own and own[mine] == other.get(theirs)}
    return any({fold(column) for column in fact} <= compared for fact in compiler.catalog.unique(table.name))


def _read_pair(equal: exp.EQ, own: str, other: str) -> set[tuple[str, str]]:
    """Return the columns of two items, by their aliases, that a comparison sets equal, if it does."""
    sides = equal.this.unnest(), equal.expression.unnest()
    if not all(isinstance(side, exp.Column) and side.table for side in sides):
        return set()
    named = {fold(side.table): fold(side.name) for side in sides}
    return {(named[own], named[other])} if named.keys() == {own, other} else set()


def _is_name(node: exp.Expr) -> bool:
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and _has_only(node, _NAMED)


def _has_only(node: exp.Expr, parts: set[str]) -> bool:
    return list_given(node) <= parts


def _is_true(condition: exp.Expr) -> bool:
    found = condition.unnest()
    return isinstance(found, exp.Boolean) and bool(found.this)


def find_whole_table(
    compiler: StatementCompiler,
    select: exp.Select,
    keys: Sequence[Typed],
    domains: Sequence[Candidates],
    numbers: int,
    selection: Selection | None,
) -> WholeTable | None:
    """Return the private table of which a SELECT reads all rows; None if it has no kept ladder.

    `keys` are the keys of the SELECT, `domains` say which candidates they have, and `numbers` how many
    numbers it releases of each group. The largest k of d groups have larger parts of the whole than others,
    and at most all of it: each is taken for one of g = sqrt(k d) groups. That already allows for groups of
    unequal size, and noise chooses large noise: so g^(9/8) groups are counted, more than g. A table whose
    rows are units has no rows of units to bound.
    """
    ladders = compiler.catalog.kept_ladders
    source = None if ladders is None else find_whole_source(compiler, select)
    if ladders is None or source is None:
        return None
    table = source.table
    if not ladders.of(table.name):
        return None
    known = sum(len(each.keys) for each in domains) == len(keys)
    groups = count_groups(compiler.catalog, domains) if known else UNDECLARED_GROUPS
    if isinstance(selection, TopK):
        power = (groups * min(selection.k, groups)) ** 9  # its 16th root is g^(9/8)
        groups = max(math.isqrt(math.isqrt(math.isqrt(math.isqrt(power)))), min(groups, 2))
    return WholeTable(
        table.name,
        compiler.epsilon,
        max(groups, 1),
        max(numbers, 1),
        ladders,
        compiler.error,
        compiler.default_error,
        in_place=source.in_place,
        by=_name_measure(compiler, source, keys),
        declared=known,
    )


def name_groups_measure(compiler: StatementCompiler, select: exp.Select, keys: Sequence[Typed]) -> str | None:
    """Return the owner's name for the number of a unit's groups, of a SELECT over a whole table.

    None: its keys are not columns of the table, or it does not read all rows.
    """
    source = find_whole_source(compiler, select)
    by = "" if source is None else _name_measure(compiler, source, keys)
    return f"{source.table.name} {by.removeprefix('groups ')}" if source is not None and by else None


def _name_measure(compiler: StatementCompiler, source: WholeSource, keys: Sequence[Typed]) -> str:
    """Return the measure of the groups of a unit, if all keys are columns of the table; else ""."""
    if not source.in_place or not keys:
        return ""
    names = [find_declared_name(compiler.catalog, source.table.name, key) for key in keys]
    return "" if None in names or any("," in name for name in names if name) else groups_by(map(str, names))


def choose_cut_of_tables(policy: Policy, names: Iterable[str]) -> Cut:
    """Return how intervals cover what bounds cut: the widest setting among the statement's tables."""
    tables = filter(None, map(policy.table, names))
    said = {table.cut or "SHARED" for table in tables if not table.public}
    widest: tuple[Cut, ...] = ("WHOLE", "SHARED", "NOISE_ONLY")
    return next((each for each in widest if each in said), "SHARED")


def find_left_out(compiler: StatementCompiler, count: ReleasedAggregate) -> LeftOut | None:
    """Return what the bound of a number leaves out, as a kept ladder knows it; None: nothing is known."""
    whole, part = compiler.whole, count.parts[0]
    kept = None if whole is None or not count.measure else whole.ladders.find(whole.table, count.measure)
    if kept is None:
        return None
    if isinstance(part, CappedSum):
        bound = int(part.most * part.grid.step / kept.ladder.step)
        return LeftOut(kept, bound, Fraction(-1 if count.signed else 0))
    if isinstance(part, RowSum):
        lowest, highest = (end * part.grid.step for end in (part.grid.low, part.grid.high))
        return LeftOut(kept, part.most, min(lowest, Fraction(0)), max(highest, Fraction(0)))
    if isinstance(part, (WeightedRows, CellRows, UnitsOfFew)):
        return LeftOut(kept, part.most)
    return LeftOut(kept, part.vector.most) if isinstance(part, Moment) else None


def find_groups_left_out(
    compiler: StatementCompiler, selection: Selection, options: Options
) -> LeftOut | None:
    """Return the bound of a kept ladder on the groups of undeclared keys; how much it cuts is not known."""
    bound = None
    if options.max_groups_contributed is None:
        bound = find_ladder_groups(compiler, selection)
    if bound is None or compiler.whole is None:
        return None
    kept = compiler.whole.ladders.find(compiler.whole.table, compiler.whole.by)
    return None if kept is None else LeftOut(kept, bound)


def find_cut_values(compiler: StatementCompiler, count: ReleasedAggregate) -> CutValues | None:
    """Return what bounds cut from the values of a number; None: none of them can lie beyond."""
    of, whole, part = count.argument, compiler.whole, count.parts[0]
    if type(part) is BoundedRows:
        return CutValues("", Fraction(0), Fraction(part.most), per_group=True)
    if of is None or not of.cut:
        return None
    found = CutValues(of.text, of.low, of.high, of.per_group)
    if whole is None or not of.column or of.per_group:
        return found
    kept = whole.ladders.find(whole.table, total_of(of.column))
    beyond = None if kept is None else kept.ladder.beyond
    if beyond is None or (beyond.low, beyond.high) != (of.low, of.high):
        return found
    return replace(found, kept=kept)


def find_nobodys(
    policy: Policy, compiler: StatementCompiler, counts: Iterable[ReleasedAggregate], tree: exp.Expr
) -> tuple[str, ...]:
    """Return which rows of the statement's tables have no unit, in words; nothing of those that have none.

    COUNT(DISTINCT unit) of one private table counts none of these in SQL either, and an inner join that
    equates the column of the unit has none of them.
    """
    tables = [each for name in sorted(compiler.used) if (each := policy.table(name)) and not each.public]
    if len(tables) == 1 and all(type(p) in (Units, UnitsOfFew) for count in counts for p in count.parts):
        return ()
    joined = _list_joined(policy, tree) if len(tables) > 1 else ()
    return tuple(
        text
        for table in tables
        if table.name not in joined
        and (text := table.describe_nobodys(partial(compiler.catalog.not_null, table.name)))
    )


def _list_joined(policy: Policy, tree: exp.Expr) -> list[str]:
    """Return the tables, each read once, of which joins keep no row that has no unit.

    Inner joins, and LEFT JOIN of the table itself, whose conditions equate the column of its unit, or that
    which leads to its parent with the parent's.
    """
    joins = tree.args.get("joins") or () if isinstance(tree, exp.Select) else ()
    if not isinstance(tree, exp.Select) or any(join.side not in ("", "LEFT") for join in joins):
        return []
    names, found = [fold(table.name) for table in find_nodes(tree, exp.Table)], list[str]()
    declared = list_declared_tables(policy, tree)
    tables = {fold(node.alias_or_name): t for node, t in declared if names.count(fold(node.name)) == 1}
    for join in joins:
        conditions = list_conjuncts(join.args.get("on"))
        for name in (join.args.get("using") or ()) if len(joins) == 1 and len(declared) == 2 else ():
            sides = (exp.column(name.copy(), table=node.alias_or_name) for node, _ in declared)
            conditions.append(exp.EQ(**dict(zip(("this", "expression"), sides, strict=True))))
        for one, other in list_equated_columns(conditions):
            table, parent = tables.get(fold(one.table)), tables.get(fold(other.table))
            kept = join.side and fold(one.table) != fold(join.this.alias_or_name)
            if table is None or kept or join.kind not in ("", "INNER", "OUTER"):
                continue
            unit, leads = table.unit, [*map(fold, table.unit_columns)] == [fold(one.name)]
            if isinstance(unit, UnitVia):
                named = (unit.table, fold(unit.column), fold(unit.via))
                leads = parent is not None and (parent.name, fold(other.name), fold(one.name)) == named
            found += [table.name] if leads else []
    return found


def find_units_at_least(policy: Policy, compiler: StatementCompiler) -> int | None:
    """Return the least bound that the policy states for a table of the statement; None if it states none."""
    tables = (policy.table(name) for name in compiler.used)
    return min((t.units_at_least for t in tables if t is not None and t.units_at_least), default=None)
