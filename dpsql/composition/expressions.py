"""Read the expressions of a SELECT over released numbers as terms of these numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sqlglot import exp

from dpsql.analysis import write_engine_sql
from dpsql.analysis.aggregate_functions import is_aggregate
from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.composition import released_terms
from dpsql.composition.existence import without_existence
from dpsql.composition.hidden_columns import FromItem, UnknownColumnsError
from dpsql.composition.released_terms import (
    CallTerm,
    Fold,
    FollowedRows,
    Known,
    LinearTerm,
    Opaque,
    QueryFollower,
    Term,
    choose_branch,
    listed,
    map_sql,
    map_sql_apart,
)
from dpsql.language import copy_tree, find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div"}
_SMOOTH = {
    **{name: name for name in ("ln", "log10", "log2", "sqrt", "cbrt", "exp", "power", "abs")},
    **{name: name for name in ("greatest", "least", "floor", "ceil", "trunc")},
    "ceiling": "ceil",
    "pow": "power",
}
_FOLDS = {
    **dict.fromkeys(("sum", "fsum", "kahan_sum", "sumkahan"), "sum"),
    **dict.fromkeys(("avg", "mean", "favg"), "avg"),
    "max": "max",
    "min": "min",
}
_PICKS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value", "first", "last", "any_value"})
_SHIFTS = frozenset({"lag", "lead"})
_WHOLE = frozenset(
    {"BIGINT", "INT", "SMALLINT", "TINYINT", "INT128", "UBIGINT", "UINT", "USMALLINT", "UTINYINT"}
)
_FLOATS = frozenset({"DOUBLE", "FLOAT"})
_NAMES: dict[type[exp.Expr], str] = {
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "text",
    exp.Cast: "a conversion",
    exp.Subquery: "a subquery",
    exp.Exists: "a subquery",
    exp.Window: "a window that noise orders",
}


@dataclass(slots=True)
class ExpressionReader:
    """Reads the expressions of one SELECT."""

    tracer: QueryFollower
    items: list[FromItem]
    ctes: Mapping[str, exp.CTE | None]
    select: exp.Select
    aliases: dict[str, Term] = field(default_factory=dict)
    """Earlier items of the select list, which later ones may name."""
    _soft: bool = False
    """Whether groups that do not exist are left out, by their released numbers."""
    _filtered: bool | None = None
    """Whether noise decides which rows of FROM the expressions are of."""

    # -- the rows

    @property
    def soft(self) -> bool:
        """Whether the rows are of groups that exist according to their released numbers."""
        return not self.filtered and self._soft

    @property
    def filtered(self) -> bool:
        """Whether noise decides which rows are aggregated, or are in a window."""
        if self._filtered is None:
            args = self.select.args
            conditions, soft = without_existence(args["where"].this) if args.get("where") else ([], False)
            self._soft |= soft
            conditions += [join.args["on"] for join in args.get("joins") or [] if join.args.get("on")]
            below: list[FollowedRows] = [item.traced for item in self.items if item.traced is not None]  # type: ignore[misc]  # so they are made
            self._soft |= any(rows.soft for rows in below)
            inner = any(rows.filtered for rows in below)
            inner = inner or any(
                join.kind in ("SEMI", "ANTI") and self.tracer.reads(join.this, self.ctes)
                for join in args.get("joins") or []
            )
            self._filtered = inner or not all(isinstance(self.term(each), Known) for each in conditions)
        return self._filtered

    def grouped_by_known(self) -> bool:
        """Whether the SELECT groups by values without noise, if it does."""
        return all(isinstance(self.term(key), Known) for key in self._keys())

    def _keys(self) -> list[exp.Expr]:
        """Return the expressions that the SELECT groups by."""
        group = self.select.args.get("group")
        if group is None:
            return []
        items = self.select.expressions
        if group.args.get("all"):
            return [item for item in items if not any(map(is_aggregate, walk_tree(item)))]
        return [self._item(each) for each in group.expressions]

    def _item(self, node: exp.Expr) -> exp.Expr:
        """Return what a term of GROUP BY or ORDER BY means: an item of the select list by place or alias."""
        items, number = self.select.expressions, read_whole_number(node.unnest())
        if number is not None and 1 <= number <= len(items):
            item: exp.Expr = items[number - 1]
            return item
        if isinstance(node, exp.Column) and not node.table:
            named = [item for item in items if isinstance(item, exp.Alias)]
            return next((item for item in named if fold(item.alias) == fold(node.name)), node)
        return node

    def chosen_by_noise(self) -> bool:
        """Whether noise decides which rows the SELECT has."""
        args = self.select.args
        later = [args[name].this for name in ("having", "qualify") if args.get(name)]
        if args.get("limit") or args.get("offset"):
            order = args.get("order")
            later += [] if order is None else [self._item(each.this) for each in order.expressions]
        return self.filtered or not all(isinstance(self.term(each), Known) for each in later)

    # -- names

    def handed(self, item: FromItem, place: int) -> Term:
        """Return the column of an item of FROM that a name means."""
        names = item.names or ()
        if item.traced is not None:
            rows: FollowedRows = item.traced  # type: ignore[assignment]  # so it is made
            return rows.handed(place, item.alias, names[place])
        value = released_terms.named(item.alias, names[place])
        kind = self.tracer.released.get(fold(item.relation), {}).get(place, "")
        if isinstance(kind, int):
            return released_terms.number(
                released_terms.named(item.alias, "rowid"), self.tracer.width, kind, value
            )
        return Opaque(kind) if kind else Known(value)

    def _column(self, node: exp.Column) -> Term:
        if node.args.get("db") is not None:
            return Opaque("a name")
        found: list[Term] = []
        nameless: list[FromItem] = []
        for item in self.items:
            if node.table and fold(node.table) != fold(item.alias):
                continue
            if item.names is None:
                nameless.append(item)
                continue
            found += [
                self.handed(item, i) for i, name in enumerate(item.names) if fold(name) == fold(node.name)
            ]
        if len(found) == 1 and not nameless:
            return found[0]
        if nameless and any(not item.relation for item in nameless):
            return Opaque("a subquery")
        if found and all(isinstance(term, Known) for term in found):
            return Known(self._sql(node))
        if found:
            return found[0] if len(found) == 1 else Opaque("a name of several columns")
        if nameless:
            return Known(self._sql(node))
        if not node.table and fold(node.name) in self.aliases:
            return self.aliases[fold(node.name)]
        outer = self.tracer.outer_term(node)
        if outer is None:
            return Opaque("a name")
        return Known(self._sql(node)) if isinstance(outer, Known) else Opaque("a correlated subquery")

    def known_name(self, node: exp.Column) -> Term | None:
        """Return what a name of a subquery means here; None if nothing here has it."""
        found = self._column(node)
        return None if isinstance(found, Opaque) and found.why == "a name" else found

    # -- expressions

    def term(self, node: exp.Expr) -> Term:
        """Return an expression as a term over released numbers."""
        if isinstance(node, (exp.Paren, exp.Alias)):
            return self.term(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if type(node) in _ARITHMETIC:
            return released_terms.arithmetic(
                _ARITHMETIC[type(node)], self.term(node.this), self.term(node.expression), self._sql(node)
            )
        if isinstance(node, exp.Window):
            return self._window(node)
        within = isinstance(node, exp.In) and node.args.get("query") is not None
        if within or isinstance(node, (exp.Subquery, exp.Exists)):
            return self._subquery(node)
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.Anonymous):
            return self._function(node)
        return self._other(node)

    def _without_noise(self, inner: list[Term], node: exp.Expr) -> Term | None:
        """Return an expression of known terms, or the term that is not understood; None: it has noise."""
        if all(isinstance(term, Known) for term in inner):
            return Known(self._sql(node))
        return released_terms.first_opaque(*inner)

    def _other(self, node: exp.Expr) -> Term:
        children = [self.term(each) for each in node.iter_expressions()]
        settled = self._without_noise(children, node)
        if settled is not None:
            return settled
        if isinstance(node, exp.Neg):
            (inner,) = children
            if isinstance(inner, LinearTerm):
                return released_terms.scale(inner, "-1", self._sql(node))
            return CallTerm("neg", (inner,))
        if isinstance(node, exp.Pow):
            return CallTerm("power", (self.term(node.this), self.term(node.expression)))
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, (exp.Predicate, exp.Connector, exp.Not)):
            return Opaque("a comparison")
        return Opaque(_NAMES.get(type(node), type(node).__name__.lower()))

    def _cast(self, node: exp.Cast) -> Term:
        kind, inner = node.args["to"], self.term(node.this)
        name = getattr(kind.this, "name", str(kind.this))
        if name in _FLOATS:
            return released_terms.with_value(inner, self._sql(node))
        if name in _WHOLE:
            return CallTerm("round", (inner, Known("0")))
        if name == "DECIMAL":
            places = [each.name for each in kind.expressions]
            return CallTerm(
                "round", (inner, Known(places[1] if len(places) > 1 else "3" if not places else "0"))
            )
        return Opaque("text" if name in ("VARCHAR", "TEXT") else "a conversion")

    def _case(self, node: exp.Case) -> Term:
        operand = node.args.get("this")
        whens = [(each.this, each.args["true"]) for each in node.args.get("ifs") or []]
        conditions = [self.term(each) for each, _ in whens]
        conditions += [] if operand is None else [self.term(operand)]
        default = node.args.get("default")
        branches = [self.term(each) for _, each in whens]
        last = None if default is None else self.term(default)
        value = self._sql(node)
        if all(isinstance(term, Known) for term in conditions):
            texts = [self._sql(each) for each, _ in whens]
            if operand is not None:
                texts = [f"({self._sql(operand)}) = ({text})" for text in texts]
            return choose_branch(texts, branches, value, last)
        cut = self._cut(whens, default) if operand is None and default is not None else None
        if cut is not None:
            return cut
        nodes = [*(each for _, each in whens), *([] if default is None else [default])]
        return self._one_or_null(nodes, value)

    def _cut(self, whens: list[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> Term | None:
        """Return a value that is cut to an interval: CASE WHEN x < 0 THEN 0 WHEN x > 1 THEN 1 ELSE x END."""
        inner, own = self.term(default), default.unnest()
        ends: dict[type[exp.Expr], str] = {exp.LT: "NULL", exp.GT: "NULL"}
        for condition, result in whens:
            compared = condition.unnest()
            if ends.get(type(compared)) != "NULL" or compared.this.unnest() != own:
                return None
            end = self.term(result)
            if compared.expression.unnest() != result.unnest() or not isinstance(end, Known):
                return None
            ends[type(compared)] = end.sql
        if isinstance(inner, (Known, Opaque)):
            return inner
        return CallTerm("cut", (inner, *(Known(ends[kind]) for kind in (exp.LT, exp.GT))))

    def _one_or_null(self, nodes: list[exp.Expr], value: str) -> Term:
        """Return a value that is NULL where noise says so, as where a divisor rounds to 0."""
        there = [each for each in nodes if not isinstance(each, exp.Null)]
        if len(there) == 1:
            return released_terms.with_value(self.term(there[0]), value)
        return Opaque("a comparison")

    def _function(self, node: exp.Anonymous) -> Term:
        name, args = call_name(node), node.expressions
        if is_aggregate(node):
            return self._aggregate(node, name, None)
        if name in ("coalesce", "ifnull"):
            branches = [self.term(each) for each in args]
            return released_terms.coalesce(branches, [self._sql(each) for each in args], self._sql(node))
        if name in ("if", "iff") and len(args) == 3:
            if isinstance(self.term(args[0]), Known):
                branch, last = self.term(args[1]), self.term(args[2])
                return choose_branch([self._sql(args[0])], [branch], self._sql(node), last)
            return self._one_or_null(args[1:], self._sql(node))
        if name == "nullif":
            return released_terms.with_value(self.term(args[0]), self._sql(node))
        children = [self.term(each) for each in args]
        settled = self._without_noise(children, node)
        if settled is not None:
            return settled
        if name in _SMOOTH:
            return self._clip(name, args) or CallTerm(_SMOOTH[name], tuple(children))
        if name == "log":
            return CallTerm("log10" if len(children) == 1 else "log", tuple(children))
        if name == "round":
            return CallTerm("round", (children[0], children[1] if len(children) > 1 else Known("0")))
        return Opaque(name)

    def _clip(self, name: str, args: list[exp.Expr]) -> Term | None:
        """Return GREATEST(0, LEAST(1, x)) or LEAST(1, GREATEST(0, x)) as a value that is cut; else None."""
        outer = self._end_and_rest(args)
        if outer is None or not isinstance(inner := outer[1].unnest(), exp.Anonymous):
            return None
        other, rest = call_name(inner), self._end_and_rest(inner.expressions)
        if rest is None or {name, other} != {"greatest", "least"}:
            return None
        least, most = (outer[0], rest[0]) if name == "greatest" else (rest[0], outer[0])
        return CallTerm("cut", (self.term(rest[1]), least, most))

    def _end_and_rest(self, args: list[exp.Expr]) -> tuple[Known, exp.Expr] | None:
        """Return the one of two arguments that has no noise, and the other; None if they are no such pair."""
        terms = [self.term(each) for each in args]
        known = [term for term in terms if isinstance(term, Known)]
        if len(terms) != 2 or len(known) != 1:
            return None
        return known[0], args[1 if terms[0] is known[0] else 0]

    # -- aggregates and windows

    def _window(self, node: exp.Window) -> Term:
        function = node.this
        parts: list[exp.Expr] = []
        for window in (node, *(self.select.args.get("windows") or [])):
            parts += window.args.get("partition_by") or []
            order = window.args.get("order")
            parts += [] if order is None else [each.this for each in order.expressions]
        name = call_name(function)
        found = [self.term(each) for each in parts]
        if not all(isinstance(term, Known) for term in found):
            return Opaque(f"{name}, whose order is that of noisy numbers")
        if not isinstance(function, exp.Anonymous) or any(
            isinstance(each, (exp.IgnoreNulls, exp.RespectNulls, exp.Distinct, exp.Ordered))
            for each in walk_tree(function)
        ):
            return Opaque("this window")
        if name in _PICKS:
            return self._pick(node, function, name)
        return self._aggregate(function, name, node)

    def _pick(self, node: exp.Window, function: exp.Anonymous, name: str) -> Term:
        first, *rest = function.expressions
        inner, more = self.term(first), [self.term(each) for each in rest]
        if self.filtered or self.tracer.barred:
            return Opaque(f"{name} over rows that noise chose")
        settled = self._without_noise([inner, *more], node)
        if settled is not None:
            return settled
        self.tracer.whole.append(self.soft)
        default = more[1] if name in _SHIFTS and len(more) > 1 else None
        if not all(isinstance(term, Known) for term in more[:1]) or isinstance(default, (CallTerm, Fold)):
            return Opaque(name)
        offset = [self._sql(each) for each in rest[:1]]

        def picked(sql: str, other: str | None = None) -> str:
            listed_args = [sql, *offset, *([] if other is None else [other])]
            return self._over(node, f"{name}({', '.join(listed_args)})")

        if isinstance(inner, LinearTerm) or (isinstance(inner, Known) and isinstance(default, LinearTerm)):
            other = None if default is None else listed(default)
            return LinearTerm(self._sql(node), (("1", picked(listed(inner), other)),))
        return Opaque(name) if default is not None else map_sql(inner, picked)

    def _aggregate(self, function: exp.Anonymous, name: str, window: exp.Window | None) -> Term:
        """Return an aggregate of rows, or of the rows of a window."""
        whole = window or function
        args = function.expressions
        if self.filtered or self.tracer.barred:
            return Opaque(f"{name} over rows that noise chose")
        inner = [Known("") if isinstance(each, exp.Star) else self.term(each) for each in args]
        settled = self._without_noise(inner, whole)
        if settled is not None:
            return settled
        if name == "count":
            return Known(self._sql(whole))
        self.tracer.whole.append(self.soft)
        self.tracer.aggregating.append(None if window is not None else self.select)
        op = _FOLDS.get(name)
        if len(inner) != 1 or op is None:
            return Opaque(name)
        there = f"FILTER (WHERE ({self._sql(args[0])}) IS NOT NULL)"

        def over(sql: str) -> str:
            return sql if window is None else self._over(window, sql)

        if isinstance(inner[0], LinearTerm) and op not in ("max", "min"):
            form = f"flatten({over(f'list({listed(inner[0])}) {there}')})"
            factor = "1"
            if op == "avg":
                factor = f"1 / CAST({over(f'COUNT({self._sql(args[0])})')} AS DOUBLE)"
            return LinearTerm(self._sql(whole), ((factor, form),))
        return Fold(op, map_sql(inner[0], lambda sql: over(f"list({sql}) {there}")))

    def _over(self, window: exp.Window, sql: str) -> str:
        """Return a window function with other SQL, over the same window."""
        return released_terms.around(window, "this", sql)

    # -- subqueries

    def _subquery(self, node: exp.Expr) -> Term:
        if not self.tracer.reads(node, self.ctes):
            names = [self._column(each) for each in find_nodes(node, exp.Column)]
            noisy = any(isinstance(term, (LinearTerm, CallTerm, Fold)) for term in names)
            return Opaque("a correlated subquery") if noisy else Known(self._sql(node))
        if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Select):
            return Opaque("a subquery")
        made = copy_tree(node)
        try:
            rows = self.tracer.subquery(made.this, self.ctes, self.known_name)
        except UnknownColumnsError:
            return Opaque("a subquery")
        if len(rows.columns) != 1:
            return Opaque("a subquery")
        term = rows.columns[0][1]
        if rows.filtered and not isinstance(term, Known):
            return Opaque("a subquery whose rows noise chose")

        def alone(sql: str) -> str:
            one = copy_tree(made)
            one.this.set("expressions", [exp.Var(this=sql)])
            return write_engine_sql(one)

        if isinstance(term, Known):
            return Known(self._sql(node))
        if isinstance(term, LinearTerm):
            return LinearTerm(self._sql(node), map_sql_apart(term, alone).parts)  # type: ignore[union-attr]  # a form too
        return map_sql_apart(term, alone)

    def _sql(self, node: exp.Expr) -> str:
        return released_terms.sql_of(node)
