"""Statements over all rows of a table: which they are, and what the bounds of their numbers leave out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.bounds import groups_by_ladder
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.domains import Candidates
from dpsql.analysis.kept_bounds import UNDECLARED_GROUPS, CutValues, LeftOut, WholeTable, groups_by, total_of
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.cells import CellRows
from dpsql.analysis.released.counts import BoundedRows, UnitsOfFew, WeightedRows
from dpsql.analysis.released.sums import CappedSum, Moment, RowSum
from dpsql.analysis.sparse import number_of_groups
from dpsql.analysis.typed import Typed
from dpsql.analysis.whole_sources import WholeSource, declared_name, whole_source
from dpsql.language import Cut, Options, Selection, TopK
from dpsql.policy import Policy


def whole_table(
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
    source = None if ladders is None else whole_source(compiler, select)
    if ladders is None or source is None:
        return None
    table = source.table
    if not ladders.of(table.name):
        return None
    known = sum(len(each.keys) for each in domains) == len(keys)
    groups = number_of_groups(compiler.catalog, domains) if known else UNDECLARED_GROUPS
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
        by=_groups_by(compiler, source, keys),
        declared=known,
    )


def groups_measured(compiler: StatementCompiler, select: exp.Select, keys: Sequence[Typed]) -> str | None:
    """Return the name by which the groups of a unit are asked that a SELECT over all rows of a table has.

    None: its keys are not columns of the table, or it does not read all rows.
    """
    source = whole_source(compiler, select)
    by = "" if source is None else _groups_by(compiler, source, keys)
    return f"{source.table.name} {by.removeprefix('groups ')}" if source is not None and by else None


def _groups_by(compiler: StatementCompiler, source: WholeSource, keys: Sequence[Typed]) -> str:
    """Return the measure of the groups of a unit, if all keys are columns of the table; else ""."""
    if not source.in_place or not keys:
        return ""
    names = [declared_name(compiler.catalog, source.table.name, key) for key in keys]
    return "" if None in names or any("," in name for name in names if name) else groups_by(map(str, names))


def cut_of_tables(policy: Policy, names: Iterable[str]) -> Cut:
    """Return how intervals have what bounds cut: the widest that one of the tables of a statement says."""
    tables = filter(None, map(policy.table, names))
    said = {table.cut or "SHARED" for table in tables if not table.public}
    widest: tuple[Cut, ...] = ("WHOLE", "SHARED", "NOISE_ONLY")
    return next((each for each in widest if each in said), "SHARED")


def left_out(compiler: StatementCompiler, count: ReleasedAggregate) -> LeftOut | None:
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


def groups_left_out(compiler: StatementCompiler, selection: Selection, options: Options) -> LeftOut | None:
    """Return the bound of a kept ladder on the groups of undeclared keys; how much it cuts is not known."""
    bound = None
    if options.max_groups_contributed is None:
        bound = groups_by_ladder(compiler, selection)
    if bound is None or compiler.whole is None:
        return None
    kept = compiler.whole.ladders.find(compiler.whole.table, compiler.whole.by)
    return None if kept is None else LeftOut(kept, bound)


def cut_values(compiler: StatementCompiler, count: ReleasedAggregate) -> CutValues | None:
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
