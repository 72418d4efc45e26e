"""NTILE over all rows: its cut points are released first, and the bucket of a row follows from these.

Which bucket a row is in depends on the rows of all units. The k - 1 quantiles between k buckets are one
release, and what is counted of the buckets is another, which reads them as constants: it has its sensitivity
whatever they are (adaptive composition). The bucket of a row is a CASE with the results 1 to k, so that the
groups of its values are declared.

*Ties.* NTILE divides equal rows among buckets so that these are of one size. So what is cut is no value but
z = x + h s, where s is the least difference of two values of the type of x, and h in [0, 1) are 16 bits of a
hash of the row's unit and keys: rows with different values are in the order of these, and equal ones in the
order of their hashes. Which of equal rows come first SQL leaves open. A DOUBLE has no such difference: rows
with one value are then in one bucket, which the answer says.

*Accuracy.* Bucket j of k ends where QUANTILE_DISC(z, j / k) does, so without noise sizes differ from those of
NTILE by what falls into one cell of the quantile's grid. With noise their sizes are those of the cut points
that were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, islice

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.call_rules import MOST_BUCKETS, TIE, TIES
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import find_cte, function_name, read_item, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.analysis.typed_expression import Typed
from dpsql.composition.found_values import list_ctes_of
from dpsql.errors import QueryRefused
from dpsql.language import (
    Query,
    copy_tree,
    find_nodes,
    keep_title,
    list_given,
    list_terms,
    make_call,
    make_select,
    name_query,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, fold
from dpsql.types import DOUBLE

_READ = frozenset({"expressions", "from_", "joins", "where", "group", "having", "kind"})
_PARTS = {"DATE": ("day", 1), "TIMESTAMP": ("second", 1_000_000)}
"""The part of time in which moments are counted, and what it is in the unit of their bounds."""
_FIRST = datetime(1970, 1, 1)

Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A call of NTILE over all rows of a block, and what its column is called."""

    window: exp.Window
    name: str
    buckets: int
    term: exp.Expr
    more: tuple[exp.Expr, ...] = ()
    """What decides the order of equal rows."""

    @property
    def by(self) -> str:
        """The name of the values by which NTILE orders the rows."""
        named = self.term.this.unnest()
        return named.name if isinstance(named, exp.Column) else self.name


def with_tiles(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement with comparisons with cut points in the place of NTILE; its tree is changed."""
    tree: exp.Query = query.tree
    for select in find_nodes(tree, exp.Select):
        tiles = _list_tiles(select)
        if not tiles or select is tree or any(v and n not in _READ for n, v in select.args.items()):
            continue
        if any(_is_hidden(table, tree) for table in find_nodes(select, exp.Table)):
            continue
        ctes = list_ctes_of(select, provenance)
        unit = provenance.find_unit(select, ctes)
        telling = [] if unit is None else _list_telling(select, unit, provenance.policy)
        if telling and all(_is_among(term, telling) for tile in tiles for term in tile.more):
            _cut(select, tiles, telling, provenance, ctes, tree)
    return tree


def _cut(
    select: exp.Select,
    tiles: list[_Tile],
    telling: list[exp.Expr],
    of: Provenance,
    ctes: tuple[Cte, ...],
    tree: exp.Query,
) -> None:
    """Put comparisons with cut points in the place of the calls of a block, if all can be cut."""
    taken = {fold(node.name) for node in find_nodes(tree, exp.Identifier)}
    names = list(islice((n for i in count() if (n := f"cuts{i}") not in taken), len(tiles)))
    columns, numbers = list[tuple[Typed, Ends | None]](), list[exp.Expr]()
    for tile, name in zip(tiles, names, strict=True):
        try:
            rows = _select_rows(select, [exp.alias_(copy_tree(tile.term.this), name)])
            column = of.make_compiler().query(rows, ctes, 1).columns[-1]
        except QueryRefused:
            return
        made = _number_of(tile, column, telling)
        if made is None:
            return
        numbers.append(exp.alias_(made[0], name))
        columns.append((column, made[1]))
    rows = _select_rows(select, numbers)
    for tile, (column, ends), name in zip(tiles, columns, names, strict=True):
        cuts = _select_cuts(copy_tree(rows), tile, name, ends)
        cuts.meta["note"] = _describe(tile, column)
        _put_clause(tree, select, name, cuts)
        tile.window.replace(keep_title(tile.window, _bucket(tile, name, nulls=column.nulls)))
    _read_columns(select, rows, names)


def _select_rows(select: exp.Select, more: list[exp.Expr]) -> exp.Select:
    """Return the rows of a block with more columns, and without those that have a window."""
    made = copy_tree(select)
    for item in made.expressions:
        if item.find(exp.Window) is not None:
            item.replace(exp.alias_(exp.Literal.number(0), f"without {item.alias_or_name}", quoted=True))
    made.set("expressions", [*made.expressions, *more])
    made.meta["select"] = -1
    return made


def _read_columns(select: exp.Select, rows: exp.Select, names: list[str]) -> None:
    """Let a block read its rows, with the numbers by which these are ordered, as columns of a subquery."""
    inner = [item for item in rows.expressions if not item.is_star]
    hidden = [exp.to_identifier(item.alias_or_name, quoted=True) for item in inner]
    for item in select.expressions:
        if item.is_star:
            item.replace(exp.Star(except_=hidden))
        elif not item.find(exp.Subquery):
            item.replace(exp.column(item.alias_or_name, quoted=True))
    for name in ("joins", "where", "group", "having"):
        select.set(name, None)
    select.set("from_", exp.From(this=name_query(rows, "s")))


def _is_among(term: exp.Expr, telling: list[exp.Expr]) -> bool:
    """Return whether a term is one of the columns that tell rows apart: it orders equal rows alone."""
    named = {fold(each.name) for each in telling if isinstance(each, exp.Column)}
    return isinstance(term, exp.Column) and fold(term.name) in named


def _is_hidden(table: exp.Table, tree: exp.Query) -> bool:
    """Return whether a name means a common table expression of a query inside the statement."""
    cte = find_cte(table)
    return cte is not None and (cte.parent is None or cte.parent.parent is not tree)


def _put_clause(tree: exp.Query, select: exp.Select, name: str, query: exp.Select) -> None:
    """Add a common table expression to a statement, before that in which a block stands."""
    cte = exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    clause = tree.args.get("with_")
    listed = [] if clause is None else list(clause.expressions)
    around = {id(node) for node in _list_around(select)}
    place = next((i for i, each in enumerate(listed) if id(each) in around), len(listed))
    tree.set("with_", exp.With(expressions=[*listed[:place], cte, *listed[place:]]))


def _list_around(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _bucket(tile: _Tile, name: str, *, nulls: bool) -> exp.Expr:
    """Return the number of a row's bucket by the cut points that a release has."""
    number = exp.column(name)
    null = exp.If(this=exp.Is(this=copy_tree(number), expression=exp.Null()), true=exp.Null())
    branches = [null] if nulls else []
    for j in range(1, tile.buckets):
        released = exp.Table(this=exp.to_identifier(name, quoted=True))
        end = make_select([exp.column(f"c{j}", quoted=True)], released)
        below = exp.LTE(this=copy_tree(number), expression=exp.Subquery(this=end))
        branches.append(exp.If(this=below, true=exp.Literal.number(j)))
    return exp.Case(ifs=branches, default=exp.Literal.number(tile.buckets))


def _describe(tile: _Tile, column: Typed) -> str:
    """Return what the answer says of buckets."""
    said = f"{tile.name}: NTILE's buckets are between cut points that are released first"
    said += "; ranges are of the rows between"
    ties = "a hash decides which of equal rows come first"
    said += f"; {'rows with one value are in one bucket' if column.type == DOUBLE else ties}"
    return f"{said}; rows without a value are in none" if column.nulls else said


def _list_tiles(select: exp.Select) -> list[_Tile]:
    """Return the calls of NTILE over all rows of a block, if it has no other windows beside them.

    None are returned of a block whose other columns could not be read beside them.
    """
    found = list[_Tile]()
    for item in select.expressions:
        windows = list[exp.Window]()
        columns = False
        for node in walk_tree(item, lambda n: isinstance(n, (exp.Window, exp.Query))):
            columns |= isinstance(node, (exp.Column, exp.Query))
            if isinstance(node, exp.Window):
                windows.append(node)
        if not windows:
            if not (item.is_star or item.alias_or_name):
                return []
            continue
        for node in windows:
            made = _read_tile(node, item.alias_or_name or "ntile")
            if made is None or columns:
                return []
            found.append(made)
    return found


def _read_tile(node: exp.Window, name: str) -> _Tile | None:
    call, terms = node.this, list_terms(node, "order")
    named = (function_name(call) or "").lower() == "ntile" and len(call.expressions) == 1
    buckets = read_whole_number(call.expressions[0]) if named else None
    others = list_given(node) - {"this", "order", "over"}
    if buckets is None or not 2 <= buckets <= MOST_BUCKETS or others or not terms:
        return None
    return _Tile(node, name, buckets, terms[0], tuple(term.this for term in terms[1:]))


def _list_telling(select: exp.Select, unit: exp.Column, policy: Policy) -> list[exp.Expr]:
    """Return what tells the rows of a block apart: the keys of its groups, or the unit and unique columns."""
    group, items = select.args.get("group"), select.expressions
    if group is None:
        first = select.args["from_"].this
        table = policy.table(first.name) if isinstance(first, exp.Table) and first.name.isascii() else None
        unique = next(iter(sorted(table.unique)), ()) if table is not None else ()
        return [unit, *(exp.column(c, table=first.alias_or_name, quoted=True) for c in unique)]
    if group.args.get("all"):
        return [item.unalias() for item in items if not contains_aggregate(item)]
    keys = ((key, read_item(select, key)) for key in group.expressions)
    return [key if contains_aggregate(item) else item for key, item in keys]


def _number_of(tile: _Tile, column: Typed, telling: list[exp.Expr]) -> tuple[exp.Expr, Ends | None] | None:
    """Return a number in the order of the rows, and its ends where they follow from those of days.

    Rows with one value differ by a hash. None of values that are no numbers, days or times.
    """
    kind, bounds, ends = column.type, column.bounds, None
    number, descending = copy_tree(tile.term.this), bool(tile.term.args.get("desc"))
    if kind.name in _PARTS:
        part, size = _PARTS[kind.name]
        first, last = (0, None) if bounds is None else (int(bounds.low // size), int(bounds.high // size))
        begin = exp.cast(
            exp.Literal.string((_FIRST + timedelta(**{f"{part}s": first})).isoformat(" ")), kind.name
        )
        number = make_call("date_diff", exp.Literal.string(part), begin, number)
        if last is not None:
            ends = (first - last, 1) if descending else (0, last - first + 1)
    elif kind.name != "DECIMAL" and kind != DOUBLE and not kind.integer:
        return None
    made: exp.Expr = exp.cast(number, "DOUBLE")
    if descending:
        made = exp.Neg(this=made)
    if kind != DOUBLE:
        hashed = make_call(TIE, *map(copy_tree, telling))
        steps = exp.Literal.number(f"{TIES * 10**kind.scale}.0")
        made = exp.Add(this=made, expression=exp.Div(this=exp.cast(hashed, "DOUBLE"), expression=steps))
    return exp.Paren(this=made), ends


def _select_cuts(rows: exp.Select, tile: _Tile, name: str, ends: Ends | None) -> exp.Select:
    """Return the release of the quantiles between the buckets, under the names c1, c2, .."""
    cuts = list[exp.Expr]()
    for j in range(1, tile.buckets):
        arguments: list[exp.Expr] = [exp.column(tile.by), exp.Literal.number(f"{j / tile.buckets:.4f}")]
        if ends is not None:
            pair = exp.Tuple(expressions=[exp.Literal.number(str(end)) for end in ends])
            arguments.append(exp.Kwarg(this=exp.Var(this="contribution_bounds_per_row"), expression=pair))
        call = make_call("QUANTILE_DISC", *arguments)
        cuts.append(exp.alias_(call, f"c{j}", quoted=True))
    ordered = make_select([exp.alias_(exp.column(name), tile.by, quoted=True)], name_query(rows, "s"))
    return make_select(cuts, name_query(ordered, "s"))
