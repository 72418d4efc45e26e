"""Refuse measures of rows that no unit owns: public ones to which an outer join finds no private row.

`diagnoses LEFT JOIN visits` has a row for each diagnosis without a visit. It is there because private rows
are not, and no unit owns it: the counting query leaves it out, so `COUNT(*)` would be too low without a word,
and a count of just these rows 0. They are counted in two releases: all public rows, less those that match.

Which rows these can be is public: with all private tables empty, FROM and WHERE give each of them. A measure
to which none of them adds anything, as `COUNT(v.visit_id)`, is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import (
    StatementCompiler,
    call_name,
    read_whole_number,
    split_arguments,
)
from dpsql.analysis.row_conditions import KnownRows, find_not_null
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import Typed
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.tree import (
    Binary,
    Constant,
    Expr,
    IsNull,
    Item,
    Join,
    Select,
    conjunction,
    duckdb_sql,
    walk,
)
from dpsql.language import MARK, Query, copy_tree, find_nodes, list_conjuncts, parse, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold
from dpsql.policy.table_parts import Assumed
from dpsql.types import INTEGER

_OUTER = frozenset({"LEFT", "RIGHT", "FULL"})
_ROWS = frozenset({"count_if", "countif"})
"""Counts of the rows on which their argument is true."""
_PLAIN = frozenset({"expressions", "from_", "joins", "where", "group", "order", "kind"})


def refuse_unmatched(
    compiler: StatementCompiler,
    query: Query,
    select: exp.Select,
    made: From,
    where: Expr | None,
    measures: Iterable[exp.Expr],
    keys: Sequence[Typed],
    known: KnownRows,
) -> frozenset[int]:
    """Refuse the measures to which a row without a unit adds; return the `id` of those that were reported.

    `where` is the compiled condition of the block. It is told how many groups have only rows that no private
    row can match: they are not shown, and SQL has them with counts of 0.
    """
    outer = (n for n in walk(made.source) if isinstance(n, Join) and n.kind in _OUTER)
    if (
        made.owner is None
        or made.owner.row
        or next(outer, None) is None
        or not _has_rows(compiler, made, [where])
    ):
        return frozenset()
    _tell_lost_groups(compiler, made, where, keys, known)
    found = set[int]()
    for node in measures:
        for call in _list_calls(node):
            added: list[Expr] | None = None
            with compiler.part():
                added = _find_conditions(compiler, call, made)
            if added is None or not _has_rows(compiler, made, [where, *added]):
                continue
            found.add(id(node))
            hint, whole = _TwoReleases.of(compiler, select, made).hint()
            fix = (
                Fix(hint, 0, len(query.source.text)) if whole and _is_whole_statement(query, select) else None
            )
            what = "public rows that match no private row belong to no unit, and are not counted here"
            compiler.report(compiler.source.refuse(what, call, hint, fix))
            break
    return frozenset(found)


def _tell_lost_groups(
    compiler: StatementCompiler, made: From, where: Expr | None, keys: Sequence[Typed], known: KnownRows
) -> None:
    """Say how many groups of public rows there are without what a join with private ones needs."""
    there = [
        IsNull(node, negated=True)
        for condition in known.conditions
        if not condition.unless
        for node in find_not_null(condition.expr)
        if known.find_item(node) is not None
    ]
    public = all(known.items.keys() >= {n.partition(".")[0] for n in key.reads} for key in keys)
    if not keys or not there or not public:
        return
    listed = tuple(Item(key.guarded_node, f"k{i}") for i, key in enumerate(keys))
    every = [each for each in (where,) if each is not None]
    texts = [duckdb_sql(Select(listed, made.source, conjunction(c))) for c in (every, [*every, *there])]
    try:
        number = compiler.catalog.count(f"SELECT * FROM ({texts[0]}) EXCEPT SELECT * FROM ({texts[1]})")
    except ValueError:
        return
    if number:
        groups = "1 group" if number == 1 else f"{number:,} groups"
        said = f"{groups} of public rows, which no private row can match, not shown: in SQL the counts are 0"
        compiler.assume(Assumed(said))


def _has_rows(compiler: StatementCompiler, made: From, conditions: Sequence[Expr | None]) -> bool:
    """Return whether a row of FROM meets conditions where all private tables are empty."""
    there = conjunction(each for each in conditions if each is not None)
    rows = Select((Item(Constant(1, INTEGER), "x"),), made.source, there, limit=1)
    try:
        return compiler.catalog.count(duckdb_sql(rows)) > 0
    except ValueError:
        return True


def _list_calls(node: exp.Expr) -> list[exp.Expr]:
    """Return the aggregates that a measure is computed from."""
    node = node.unnest()
    return [*_list_calls(node.this), *_list_calls(node.expression)] if isinstance(node, exp.Sub) else [node]


def _find_conditions(compiler: StatementCompiler, call: exp.Expr, made: From) -> list[Expr]:
    """Return the conditions on which a row adds something to a measure."""
    found: list[Expr] = []
    if isinstance(call, exp.Filter):
        found.append(compile_condition(compiler, call.expression.this, made.scope).guarded_node)
        call = call.this.unnest()
    if isinstance(call, exp.WithinGroup):
        values = [call.expression.expressions[0].this]
    else:
        _, values = split_arguments(call)
    value = values[0] if values else exp.Star()
    if isinstance(value, exp.Distinct):
        value = value.expressions[0]
    if isinstance(value, exp.Star):
        return found
    name = call_name(call)
    if name in _ROWS:
        return [*found, compile_condition(compiler, value, made.scope).guarded_node]
    compiled = compiler.expression(value, made.scope)
    found.append(IsNull(compiled.guarded_node, negated=True))
    if name == "sum" and compiled.type.numeric:
        found.append(Binary("<>", compiled.guarded_node, Constant(0, INTEGER)))
    return found


def _is_whole_statement(query: Query, select: exp.Select) -> bool:
    """Return whether a block is the whole text of the statement, which says nothing else."""
    try:
        whole = parse(query.source.text)
    except QueryRefused:
        return False
    plain = isinstance(whole, Query) and not (whole.has_options or whole.inner)
    return (
        plain and isinstance(whole, Query) and whole.tree == query.tree and select.args.get("with_") is None
    )


@dataclass(frozen=True, slots=True)
class _TwoReleases:
    """A block with one outer join of public and private rows, to be spelled as two releases."""

    compiler: StatementCompiler
    select: exp.Select
    made: From
    public: str
    """The public items of FROM and their joins, as SQL."""
    private: str
    on: str
    """The condition of the outer join, as SQL: ` ON ..` or ` USING (..)`."""
    names: frozenset[str]
    """The folded names of the public items."""

    @classmethod
    def of(cls, compiler: StatementCompiler, select: exp.Select, made: From) -> _TwoReleases:
        """Read the FROM clause of a block; `public` is empty if it is not one outer join."""
        nothing = cls(compiler, select, made, "", "", "", frozenset())
        first, joins = select.args["from_"].this, list(select.args.get("joins") or ())
        sides = [(join.args.get("side") or "").upper() for join in joins]
        if not joins or any(sides[:-1]) or sides[-1] not in _OUTER or first.args.get("joins"):
            return nothing
        last, items = joins[-1], [first, *(join.this for join in joins[:-1])]
        private = last.this
        of_last = (
            len(joins) == 1 and isinstance(last.this, exp.Table) and _is_public(compiler, last.this.name)
        )
        if sides[-1] == "RIGHT" or (sides[-1] == "FULL" and of_last):
            if len(joins) > 1:
                return nothing
            items, private = [last.this], first
        if not all(isinstance(item, exp.Table) and _is_public(compiler, item.name) for item in items):
            return nothing
        using = last.args.get("using")
        on = f" USING ({', '.join(map(_write_sql, using))})" if using else ""
        if last.args.get("on") is not None:
            on = f" ON {_write_sql(last.args['on'])}"
        public = " ".join([_write_sql(items[0]), *(_write_sql(join) for join in joins[:-1])])
        names = frozenset(fold(item.alias_or_name) for item in items)
        return cls(compiler, select, made, public, _write_sql(private), on, names)

    def hint(self) -> tuple[str, bool]:
        """Return a statement that replaces the outer join, and whether it asks the same question."""
        key = self._find_key() if self.public and self.on else None
        if key is None:
            return (
                "count all public rows, and with JOIN those that match, and subtract: "
                "SELECT (SELECT COUNT(*) FROM p) - (SELECT COUNT(DISTINCT p.key) FROM p JOIN v ON ..)",
                False,
            )
        same = self._write_same(key)
        if same is not None:
            return same, True
        every, matched = f"COUNT(*) FROM {self.public}", f"COUNT(DISTINCT {key}) FROM {self._matching_rows}"
        other = "asks something else: how many public rows match no private row"
        return f"SELECT (SELECT {every}) - (SELECT {matched}) AS n -- {other}", False

    @property
    def _matching_rows(self) -> str:
        """The FROM clause of the public rows that match a private row."""
        return f"{self.public} JOIN {self.private}{self.on}"

    def _is_of_public(self, column: exp.Column) -> bool:
        """Return whether a column is of a public item."""
        node = self.made.scope.resolve(column).node
        own = next((o for o in self.made.scope.origins if any(c.node == node for c in o.columns)), None)
        return own is not None and fold(own.alias) in self.names

    def _is_public_expression(self, node: exp.Expr) -> bool:
        """Return whether an expression reads public items alone."""
        plain = not any(isinstance(each, exp.Query) for each in walk_tree(node))
        return plain and all(self._is_of_public(column) for column in find_nodes(node, exp.Column))

    def _find_key(self) -> str | None:
        """Return a column that tells the public rows that match apart; None if none of those tried does.

        A row whose compared column is NULL matches nothing, so that only the others need be told apart.
        """
        joins = self.select.args["joins"]
        equal = [each for each in list_conjuncts(joins[-1].args.get("on")) if isinstance(each, exp.EQ)]
        compared = [
            c for each in equal for c in find_nodes(each, exp.Column) if c.table and self._is_of_public(c)
        ]
        tried = [(column, f" WHERE {_write_sql(column)} IS NOT NULL") for column in compared]
        for item in (self.select.args["from_"].this, *(join.this for join in joins)):
            table = self.compiler.policy.table(item.name) if isinstance(item, exp.Table) else None
            if table is not None and fold(item.alias_or_name) in self.names:
                names = [columns[0] for columns in table.unique if len(columns) == 1]
                tried += [(exp.column(name, table=item.alias_or_name), "") for name in names]
        for column, there in tried:
            name, count = _write_sql(column), self.compiler.catalog.count
            different = f"SELECT DISTINCT {name} FROM {self.public} WHERE {name} IS NOT NULL"
            try:
                if count(f"SELECT 1 FROM {self.public}{there}") == count(different):
                    return name
            except ValueError:
                continue
        return None

    def _write_same(self, key: str) -> str | None:
        """Return the statement that asks the same; None if the block is no single count of rows."""
        args = self.select.args
        if (args["joins"][-1].args.get("side") or "").upper() == "FULL":  # it has private rows besides
            return None
        if any(value for name, value in args.items() if name not in _PLAIN):
            return None
        keys = [item for item in self.select.expressions if not _counts_rows(item.unalias())]
        counts = [item for item in self.select.expressions if _counts_rows(item.unalias())]
        filters = list_conjuncts(args["where"].this) if args.get("where") is not None else []
        public = [each for each in filters if self._is_public_expression(each)]
        absent = [each for each in filters if each not in public]
        grouped = [] if args.get("group") is None else args["group"].expressions
        if len(counts) != 1 or bool(keys) != bool(grouped) or not all(map(self._is_public_expression, keys)):
            return None
        if not self._is_grouped_by(keys, grouped):
            return None
        count = counts[0].unalias().unnest()
        absent += [count.expression.this] if isinstance(count, exp.Filter) else []
        if len(absent) > 1 or not all(map(self._says_absent, absent)):
            return None
        title = counts[0].alias or "n"
        where = f" WHERE {_write_sql(exp.and_(*map(copy_tree, public)))}" if public else ""
        sign, matched = (
            ("-", f"COUNT(DISTINCT {key})") if absent else ("+", f"COUNT(*) - COUNT(DISTINCT {key})")
        )
        if not keys:
            all_rows, inner = (
                f"SELECT COUNT(*) FROM {self.public}{where}",
                f"FROM {self._matching_rows}{where}",
            )
            return f"SELECT ({all_rows}) {sign} (SELECT {matched} {inner}) AS {title}"
        names = [f"k{i}" for i in range(len(keys))]
        listed = ", ".join(
            f"{_write_sql(key.unalias())} AS {name}" for key, name in zip(keys, names, strict=True)
        )
        shown = [f"a.{name} AS {key.alias_or_name or name}" for key, name in zip(keys, names, strict=True)]
        places = {id(key): text for key, text in zip(keys, shown, strict=True)}
        number = f"a.n {sign} COALESCE(b.n, 0) AS {title}"
        items = ", ".join(places.get(id(item), number) for item in self.select.expressions)
        same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in names)
        order = self._write_order(keys, names)
        if order is None:
            return None
        every = f"SELECT {listed}, COUNT(*) AS n FROM {self.public}{where} GROUP BY ALL"
        inner = f"SELECT {listed}, {matched} AS n FROM {self._matching_rows}{where} GROUP BY ALL"
        return f"SELECT {items} FROM ({every}) AS a LEFT JOIN ({inner}) AS b ON {same}{order}"

    def _is_grouped_by(self, keys: Sequence[exp.Expr], grouped: Sequence[exp.Expr]) -> bool:
        """Return whether GROUP BY names the keys of the select list, and nothing else."""
        own = [key.unalias() for key in keys]
        for node in grouped:
            place = read_whole_number(node)
            by_name = isinstance(node, exp.Column) and any(fold(key.alias) == fold(node.name) for key in keys)
            if not (node in own or by_name or (place is not None and place <= len(self.select.expressions))):
                return False
        return len(grouped) == len(keys)

    def _says_absent(self, node: exp.Expr) -> bool:
        """Return whether a condition says that no private row matches: a key or a compared column is NULL."""
        node = node.unnest()
        if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.Null):
            return False
        column = node.this.unnest()
        if not isinstance(column, exp.Column) or self._is_of_public(column):
            return False
        joins = self.select.args["joins"]
        compared = [c for each in find_nodes(joins[-1], exp.EQ) for c in find_nodes(each, exp.Column)]
        if any(fold(each.name) == fold(column.name) for each in compared) or joins[-1].args.get("using"):
            return True
        tables = [t for t in find_nodes(self.select, exp.Table) if fold(t.alias_or_name) not in self.names]
        declared = [self.compiler.policy.table(table.name) for table in tables]
        return any(
            t is not None and [fold(column.name)] in [[*map(fold, u)] for u in t.unique] for t in declared
        )

    def _write_order(self, keys: Sequence[exp.Expr], names: Sequence[str]) -> str | None:
        """Return ORDER BY over the keys; None if it has other terms."""
        order = self.select.args.get("order")
        terms = []
        for term in order.expressions if order is not None else ():
            number, listed = read_whole_number(term.this), self.select.expressions
            item = listed[number - 1] if number is not None and 1 <= number <= len(listed) else None
            named = (
                i
                for i, k in enumerate(keys)
                if k is item or term.this in (k.unalias(), exp.column(k.alias or ""))
            )
            place = next(named, None)
            if place is None:
                return None
            terms.append(f"a.{names[place]}{' DESC' if term.args.get('desc') else ''}")
        return f" ORDER BY {', '.join(terms)}" if terms else ""


def _counts_rows(node: exp.Expr) -> bool:
    """Return whether an item is COUNT(*), with FILTER or without."""
    call = node.unnest()
    call = call.this.unnest() if isinstance(call, exp.Filter) else call
    plain = call_name(call) == "count" and len(call.expressions) == 1
    return plain and isinstance(call.expressions[0], (exp.Star, exp.Literal))


def _is_public(compiler: StatementCompiler, name: str) -> bool:
    table = compiler.policy.table(name) if name.isascii() else None
    return table is not None and table.public


def _write_sql(node: exp.Expr) -> str:
    return str(node.sql("duckdb")).replace(MARK, "")
