"""Guards: conditions on the date of units, added where it follows that no others have rows.

A statement that reads a few parts of units is charged to these alone. Which they are is found from its
conditions (`part_conditions`), and written beside each of them: `AND signed_up >= .. AND signed_up < ..`. The
kernel proves the parts of what is counted from these guards, whatever was found here: were it wrong, rows
would be missing, and no unit would bear what is not charged to it.

With `until = "now"` a statement that may read later parts reads the home table up to now. One that reads
earlier parts alone is left as it is written, so that its answer is found again next week. So is one that is
charged to later parts in any case, such as one with a LEFT JOIN of the home table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime

import pyarrow as pa
from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.part_conditions import NULLS, VALUES, Conditions, Evaluate, PartConditions, evaluate_in
from dpsql.analysis.value_conditions import MOST_VALUES, ValueConditions, select_values, write_guard
from dpsql.errors import with_article
from dpsql.kernel.facts import Home, fold
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Exists,
    Expr,
    InQuery,
    IsNull,
    Join,
    Node,
    Paren,
    Query,
    Scan,
    Select,
    SetOperation,
    Source,
    conjunction,
    duckdb_sql,
    parts,
    replace_nodes,
)
from dpsql.kernel.unit_parts import (
    ALL_PARTS,
    EARLIER,
    LATER,
    NO_HOME,
    NULL_PART,
    Calendar,
    PartSet,
    WholeNumbers,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed, UnitParts, UnitPeriods
from dpsql.types import DATE, TIMESTAMP, VARCHAR


@dataclass(frozen=True, slots=True)
class Rules:
    """How conditions are followed: what constants are, and what a condition is of each listed value.

    `listed` are the values for which conditions are computed, with their parts; none where parts are periods.
    """

    evaluate: Evaluate
    run: Callable[[str], pa.Table] | None = None
    listed: tuple[tuple[str | bool | int, int], ...] = ()

    def compute(self, condition: Expr, column: Column) -> list[object]:
        """Return what a condition is of each listed value in the place of a column, then of NULL."""
        if self.run is None:
            raise ValueError
        found: list[object] = (
            self.run(select_values(condition, column, [v for v, _ in self.listed])).column(0).to_pylist()
        )
        return found


@dataclass(frozen=True, slots=True)
class GuardedRows:
    """A query with guards, which are conditions on the date of units, and the parts that it can read."""

    query: Query
    found: PartSet
    """The parts that can have rows, as far as was found."""
    cut: bool
    """Whether rows of later parts were left out."""


def guard_rows(
    query: Query, home: Home, public: Iterable[str], rules: Rules, now: date | None
) -> GuardedRows:
    """Return rows with guards; `now` is the day up to which the home table is read, None: every day."""
    walk = _Guards(home, frozenset(public), rules, None)
    made, known = walk.query(query)
    calendar = home.numbering
    if now is None or not isinstance(calendar, Calendar):
        return GuardedRows(made, known.parts, False)
    last = calendar.number(now)
    past = PartSet.of((EARLIER, last), (NULL_PART, NULL_PART), (NO_HOME, NO_HOME))
    if not walk.scanned or known.parts <= past:
        return GuardedRows(made, known.parts, False)
    cut, left = _Guards(home, frozenset(public), rules, last).query(query)
    if not left.parts <= past:  # it is charged to later parts in any case: no row is left out for nothing
        return GuardedRows(made, known.parts, False)
    return GuardedRows(cut, left.parts, True)


def guard_parts(compiler: StatementCompiler, query: Query, select: exp.Select) -> Query:
    """Return the rows of a statement with guards; refuse a statement that no part satisfies."""
    home = compiler.catalog.facts(compiler.policy, tuple(sorted(compiler.used))).home
    declared = compiler.policy.unit_parts
    if home is None or declared is None:
        return query

    public = (fold(table.name) for table in compiler.policy.tables.values() if table.public)
    now = compiler.now.date() if declared.reads_until_now else None
    rules = Rules(evaluate_in(compiler.catalog), compiler.catalog.run, _list_values(compiler, home, declared))
    found = guard_rows(query, home, public, rules, now)
    if not found.found:
        where = select.args.get("where")
        late = f" up to now ({declared.place()}: until)" if found.cut else ""
        of = f" of {with_article(home.kind)}" if declared.every else ""
        raise compiler.source.refuse(f"no {declared.noun}{of} satisfies this{late}", where or select)
    compiler.closed = _is_closed(compiler, declared, found.found)
    if compiler.closed:
        compiler.assume(
            Assumed(
                f"{declared.nouns} count as closed {declared.closed_after} after their end", where="policy"
            )
        )
    if found.cut and now is not None:
        calendar = Calendar(declared.period)
        after = max(calendar.number(now) + 1, calendar.ends[0])
        compiler.read_before = calendar.first_day(after)
        until = calendar.words(PartSet.of((EARLIER, after - 1)))
        compiler.assume(Assumed(f"{declared.column} of {declared.table}", until, "policy"))
    return found.query


def _list_values(
    compiler: StatementCompiler, home: Home, declared: UnitParts
) -> tuple[tuple[str | bool | int, int], ...]:
    """Return the values for which conditions are computed, with their parts."""
    numbering = home.numbering
    if not isinstance(numbering, WholeNumbers):
        return home.values
    domain = compiler.catalog.domain(declared.table, declared.column)
    if domain is None:
        return ()
    found = compiler.catalog.run(f"SELECT v FROM ({duckdb_sql(domain)}) AS d LIMIT {MOST_VALUES + 1}")
    return tuple((value, numbering.number(value)) for value in found.column(0).to_pylist())


def _is_closed(compiler: StatementCompiler, declared: UnitParts, found: PartSet) -> bool:
    """Return whether a statement reads closed parts alone, of the table with the parts and of public ones."""
    tables = (table for table in map(compiler.policy.table, compiler.used) if table is not None)
    columns = declared.columns if isinstance(declared, UnitPeriods) else [(declared.table, declared.column)]
    with_dates = {fold(name) for name, _ in columns}
    if any(not table.public and fold(table.name) not in with_dates for table in tables):
        return False
    return found <= declared.closed_parts(compiler.closed_at)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of rows: the parts of their units, the columns that hold a unit's date, or it or NULL."""

    parts: PartSet = ALL_PARTS
    home: frozenset[str] = frozenset()
    padded: frozenset[str] = frozenset()
    public: bool = False

    def rename(self, names: dict[str, str]) -> _Known:
        """Return what is known of the rows by new names of their columns; columns without one are lost."""
        home = frozenset(names[name] for name in self.home if name in names)
        return replace(self, home=home, padded=frozenset(names[n] for n in self.padded if n in names))


_PUBLIC = _Known(public=True)


class _Guards:
    """Adds conditions on the date of units to one query; `last` is the last part read of the home table."""

    def __init__(self, home: Home, public: frozenset[str], rules: Rules, last: int | None) -> None:
        self.home, self.public, self.rules, self.last = home, public, rules, last
        self.numbering = home.numbering
        self.scanned = False
        """Whether rows of the home table are read."""

    def query(self, query: Query) -> tuple[Query, _Known]:
        """Return a query with conditions on the date of its units, and what is known of its rows."""
        if isinstance(query, SetOperation):
            return self._operation(query)
        return self._select(query) if isinstance(query, Select) else (query, _Known())

    def _operation(self, query: SetOperation) -> tuple[Query, _Known]:
        (left, a), (right, b) = self.query(query.left), self.query(query.right)
        made = replace(query, left=left, right=right)
        if a.public or b.public or not isinstance(left, Select) or not isinstance(right, Select):
            return made, replace(b if a.public else a, home=frozenset(), padded=frozenset())
        names = [item.column for item in left.items]
        other = dict(zip((item.column for item in right.items), names, strict=True))
        if query.word.startswith("UNION"):
            mine = b.rename(other)
            held = (a.home | a.padded) & (mine.home | mine.padded)
            home = a.home & mine.home
            return made, _Known(a.parts | b.parts, home, held - home)
        both = a.parts & b.parts if query.word.startswith("INTERSECT") else a.parts
        return made, replace(a, parts=both)

    def _select(self, query: Select) -> tuple[Query, _Known]:
        if query.source is None:
            return query, _PUBLIC
        source, known = self._source(query.source)
        where = query.where
        stored = self._home_column(query) if self.last is not None else None
        if stored is not None and self.last is not None:
            read = PartSet.of((EARLIER, self.last), (NULL_PART, NULL_PART))
            until = Paren(self._condition(stored, read))
            where = until if where is None else conjunction((where, until))
            known = replace(known, parts=known.parts & read)
        if query.where is not None and where is not None:
            asked, held = self._subqueries(query.where)
            where = (
                asked
                if where is query.where
                else replace_nodes(where, lambda n: asked if n is query.where else n)
            )
            known = replace(known, parts=known.parts & held)
            known, guard = self._narrow(query.where, known)
            if guard is not None and where is not None:
                where = conjunction((where, guard))
        names = dict[str, str]()
        for item in query.items:
            if isinstance(item.expr, Column) and (not _is_grouped(query) or item.expr in query.group):
                names.setdefault(_name(item.expr), item.column)
        return replace(query, source=source, where=where), known.rename(names)

    def _subqueries(self, condition: Expr) -> tuple[Expr, PartSet]:
        """Return a condition with guards in what it asks of the unit of a row, and the parts of this."""
        match condition:
            case Paren(inner):
                made, parts_of = self._subqueries(inner)
                return Paren(made), parts_of
            case Binary("AND", left, right):
                (one, a), (other, b) = self._subqueries(left), self._subqueries(right)
                return Binary("AND", one, other), a & b
            case InQuery(_, query) | Exists(query):
                guarded, known = self.query(query)
                narrows = isinstance(query, Select) and not known.public and not _is_grouped(query)
                return replace(condition, query=guarded), known.parts if narrows else ALL_PARTS
        return condition, ALL_PARTS

    def _home_column(self, query: Select) -> Column | None:
        """Return the column with the date of each unit in a SELECT of the rows of the home table."""
        name = self.home.column_of(fold(query.source.table)) if isinstance(query.source, Scan) else None
        if name is None:
            return None
        if _is_grouped(query):
            return None
        columns = (item.expr for item in query.items if isinstance(item.expr, Column) and item.expr.stored)
        return next((each for each in columns if fold(each.name) == name), None)

    def _source(self, source: Source) -> tuple[Source, _Known]:
        """Return an item of FROM with guards, and what is known of its rows, by `alias.name`."""
        if isinstance(source, Scan):
            if fold(source.table) in self.public:
                return source, _PUBLIC
            column = self.home.column_of(fold(source.table))
            if column is None:
                return source, _Known()
            self.scanned = True
            return source, _Known(PartSet.of((0, NO_HOME - 1)), frozenset((f"{source.alias}.{column}",)))
        if isinstance(source, Derived):
            query, known = self.query(source.query)
            names = {name: f"{source.alias}.{name}" for name in known.home | known.padded}
            return replace(source, query=query), known.rename(names)
        if isinstance(source, Join):
            return self._join(source)
        return source, _PUBLIC

    def _join(self, join: Join) -> tuple[Source, _Known]:
        (left, a), (right, b) = self._source(join.left), self._source(join.right)
        kind, on = join.kind or "INNER", join.on
        if a.public or b.public:
            known = _PUBLIC if a.public and b.public else b if a.public else a
            inner = kind in ("INNER", "CROSS", "SEMI")
        else:
            known, inner = _join_units(kind, a, b), kind in ("INNER", "SEMI")
        if on is not None and inner and not known.public:
            known, guard = self._narrow(on, known)
            on = on if guard is None else conjunction((on, guard))
        return replace(join, left=left, right=right, on=on), known

    def _narrow(self, condition: Expr, known: _Known) -> tuple[_Known, Expr | None]:
        """Return rows for which a condition holds, and the guard to write beside it, if there is one.

        Where the condition reads padded columns alone, several of them could hold the date in turn, and no
        one guard would say it.
        """
        columns = {_column(name): name in known.padded for name in known.home | known.padded}
        if not columns or known.public:
            return known, None
        rule = self._rule(columns)
        possible = rule.follow(condition).true
        found = replace(known, parts=known.parts & possible)
        exact = sorted(known.home)
        read = sorted(name for name in known.padded if name in _reads(condition))
        if possible & (VALUES | NULLS) == VALUES | NULLS or not (exact or len(read) == 1):
            return (found, None) if exact or possible == ALL_PARTS else (known, None)
        return found, Paren(self._condition(_column(exact[0] if exact else read[0]), possible))

    def _rule(self, columns: Mapping[Column, bool]) -> Conditions:
        """Return how conditions over columns with the date or value of a unit are followed."""
        if isinstance(self.numbering, Calendar):
            return PartConditions(self.numbering, columns, self.home.dates, self.rules.evaluate)
        listed = [number for _, number in self.rules.listed]
        return ValueConditions(self.numbering, columns, self.rules.evaluate, self.rules.compute, listed)

    def _condition(self, column: Column, chosen: PartSet) -> Expr:
        """Return the condition that a date, or a value, is in a set of parts."""
        if not isinstance(self.numbering, Calendar):
            return write_guard(column, chosen, self.numbering)
        least, most = self.numbering.ends
        terms: list[Expr] = []
        for low, high in chosen.ranges:
            if low > LATER:
                continue
            ends: list[Expr] = []
            if low >= least:
                ends.append(Paren(Binary(">=", column, self._first(self.numbering, min(low, most + 1)))))
            if high <= most:
                ends.append(Paren(Binary("<", column, self._first(self.numbering, max(high + 1, least)))))
            terms.append(Paren(conjunction(ends) or IsNull(column, negated=True)))
        if NULL_PART in chosen:
            terms.append(Paren(IsNull(column)))
        made: Expr | None = None
        for term in terms:
            made = term if made is None else Binary("OR", made, term)
        if made is None:  # no part: no row
            return Binary("AND", Paren(IsNull(column)), Paren(IsNull(column, negated=True)))
        return made

    def _first(self, calendar: Calendar, part: int) -> Expr:
        """Return the moment at which a part of units begins."""
        day = calendar.first_day(part)
        if self.home.dates:
            return Cast(Constant(day.isoformat(), VARCHAR), DATE, bounded=True)
        text = datetime(day.year, day.month, day.day).isoformat(" ")
        return Cast(Constant(text, VARCHAR), TIMESTAMP, bounded=True)


def _join_units(kind: str, a: _Known, b: _Known) -> _Known:
    """Return what is known of rows that are joined with rows of the same units."""
    match kind:
        case "INNER" | "CROSS":
            return _Known(a.parts & b.parts, a.home | b.home, a.padded | b.padded)
        case "SEMI":
            return replace(a, parts=a.parts & b.parts)
        case "ANTI":
            return a
        case "LEFT":
            return replace(a, padded=a.padded | b.home | b.padded)
        case "RIGHT":
            return replace(b, padded=b.padded | a.home | a.padded)
    return _Known(a.parts | b.parts, frozenset(), a.home | a.padded | b.home | b.padded)


def _is_grouped(query: Select) -> bool:
    return bool(query.group) or any(isinstance(item.expr, Aggregate) for item in query.items)


def _name(column: Column) -> str:
    """Return the name of a column as `alias.name`; names of stored ones are compared without case."""
    return f"{column.table}.{fold(column.name) if column.stored else column.name}"


def _column(name: str) -> Column:
    """Return the column of a name `alias.name`."""
    table, _, own = name.partition(".")
    return Column(table, own)


def _reads(condition: Expr) -> set[str]:
    """Return the columns that a condition reads, by their names, also in subqueries."""
    found, waiting = set[str](), list[Node]((condition,))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Column):
            found.add(_name(node))
        waiting += parts(node)
    return found
