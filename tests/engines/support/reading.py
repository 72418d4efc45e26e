"""Reads DuckDB's SQL of the compiled language as a tree, so that tests may write their queries as text."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, Query, Source
from dpsql.language import MARK
from dpsql.language.tokens import mark_functions
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTEGER, JSON, NULL, VARCHAR, SqlType, column_type

__all__ = ["expression_of", "query_of"]

OPERATORS: dict[type[exp.Expr], str] = {
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseRightShift: ">>",
    exp.BitwiseLeftShift: "<<",
    exp.DPipe: "||",
    exp.StartsWith: "^@",
    exp.RegexpLike: "~",
    exp.Glob: "GLOB",
    exp.SimilarTo: "SIMILAR TO",
}
LIKES: dict[type[exp.Expr], str] = {exp.Like: "LIKE", exp.ILike: "ILIKE"}
SETS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}
TYPES = {"HUGEINT": HUGEINT, "INT128": HUGEINT, "JSON": JSON}
AGGREGATES = {"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
AGGREGATES |= {"first", "last", "median", "list"}


def query_of(sql: str) -> Query:
    """Read a query."""
    return _query(_parsed(sql))


def expression_of(sql: str) -> Expr:
    """Read an expression."""
    return _expr(_parsed(f"SELECT {sql}").expressions[0])


def _parsed(sql: str) -> exp.Expr:
    dialect = DuckDB()
    (found,) = dialect.parser().parse(mark_functions(list(dialect.tokenize(sql))), sql)
    assert found is not None
    return found


def _query(node: exp.Expr) -> Query:
    if isinstance(node, exp.Subquery):
        return _query(node.this)
    if type(node) in SETS:
        word = SETS[type(node)] + ("" if node.args.get("distinct") else " ALL")
        return tree.SetOperation(_query(node.this), word, _query(node.expression))
    assert isinstance(node, exp.Select), node.key
    known = {"expressions", "from_", "joins", "where", "group", "distinct", "order", "limit"}
    assert not {name for name, value in node.args.items() if value and name not in known}
    source = node.args.get("from_")
    made = _source(source.this) if source is not None else None
    for join in node.args.get("joins") or ():
        assert made is not None
        kind = (join.side or join.kind or "").upper()
        on = join.args.get("on")
        made = tree.Join(made, kind, _source(join.this), None if on is None else _expr(on))
    where, group, limit = (node.args.get(name) for name in ("where", "group", "limit"))
    return tree.Select(
        tuple(_item(item) for item in node.expressions),
        made,
        None if where is None else _expr(where.this),
        () if group is None else tuple(map(_expr, group.expressions)),
        _order(node.args.get("order")),
        None if limit is None else int(limit.expression.this),
        node.args.get("distinct") is not None,
    )


def _item(node: exp.Expr) -> tree.Item:
    if isinstance(node, exp.Alias):
        return tree.Item(_expr(node.this), str(node.alias))
    return tree.Item(_expr(node))


def _order(node: exp.Expr | None) -> tuple[tree.OrderTerm, ...]:
    def nulls(term: exp.Expr) -> str:
        return "FIRST" if term.args.get("nulls_first") else "LAST"

    terms = () if node is None else node.expressions
    return tuple(
        tree.OrderTerm(_expr(t.this), "DESC" if t.args.get("desc") else "ASC", nulls(t)) for t in terms
    )


def _source(node: exp.Expr) -> Source:
    alias = node.args.get("alias")
    name = str(alias.name) if alias is not None else ""
    columns = tuple(c.name for c in alias.args.get("columns") or ()) if alias is not None else ()
    if isinstance(node, exp.Subquery):
        return tree.Derived(_query(node.this), name)
    if isinstance(node, exp.Values):
        rows = tuple(tuple(map(_expr, row.expressions)) for row in node.expressions)
        return tree.Values(rows, name, columns)
    if isinstance(node, exp.Unnest):
        return tree.Unnest(_expr(node.expressions[0]), name)
    assert isinstance(node, exp.Table), node.key
    if node.db == tree.DOMAIN_SCHEMA:
        return tree.DomainScan(str(node.name))
    if node.db == "main":
        return tree.Scan(str(node.name), name)
    assert _call(node.this) == "range", node.this
    start, stop, *step = (_whole(a) for a in node.this.expressions)
    return tree.Range(start, stop, step[0] if step else None, name, *columns)


def _whole(node: exp.Expr) -> int:
    return -_whole(node.this) if isinstance(node, exp.Neg) else int(node.this)


def _call(node: exp.Expr) -> str | None:
    if not isinstance(node, exp.Anonymous):
        return None
    return str(node.this).removeprefix(MARK)


def _type(node: exp.Expr) -> SqlType:
    text = node.sql("duckdb")
    return TYPES.get(text.upper()) or column_type(text)


def _expr(node: exp.Expr) -> Expr:
    match node:
        case exp.Paren():
            return tree.Paren(_expr(node.this))
        case exp.Subquery() | exp.Query():
            return tree.ScalarQuery(_query(node))
        case exp.Column():
            return tree.Column(str(node.table), str(node.name), bool(node.this.args.get("quoted")))
        case exp.Identifier():
            return tree.Parameter(node.name)
        case exp.Literal():
            return _constant(node)
        case exp.Null():
            return tree.Constant(None, NULL)
        case exp.Boolean():
            return tree.Constant(bool(node.this), BOOLEAN)
        case exp.Interval():
            unit = node.args.get("unit")
            return tree.Interval(f"{node.this.this} {unit.name.lower()}" if unit else str(node.this.this))
        case exp.Array():
            return tree.ListOf(tuple(map(_expr, node.expressions)))
        case exp.Neg():
            return tree.Unary("-", _expr(node.this))
        case exp.BitwiseNot():
            return tree.Unary("~", _expr(node.this))
        case exp.Not(this=exp.Is(expression=exp.Null())):
            return tree.IsNull(_expr(node.this.this), negated=True)
        case exp.Not():
            return tree.Not(_expr(node.this))
        case exp.Is():
            operand = _expr(node.this)
            if isinstance(node.expression, exp.Null):
                return tree.IsNull(operand)
            return tree.IsTruth(operand, bool(node.expression.this))
        case exp.Cast():
            return tree.Cast(_expr(node.this), _type(node.args["to"]), isinstance(node, exp.TryCast))
        case exp.Between():
            return tree.Between(*(_expr(node.args[name]) for name in ("this", "low", "high")))
        case exp.In():
            inner = node.args.get("query")
            if inner is not None:
                return tree.InQuery(_expr(node.this), _query(inner))
            return tree.InList(_expr(node.this), tuple(map(_expr, node.expressions)))
        case exp.Exists():
            return tree.Exists(_query(node.this))
        case exp.Case():
            return _case(node)
        case exp.Bracket():
            (index,) = node.expressions
            if isinstance(index, exp.Slice):
                return tree.Slice(_expr(node.this), _whole(index.this), _whole(index.expression))
            return tree.Element(_expr(node.this), _expr(index))
        case exp.Escape():
            like = _expr(node.this)
            assert isinstance(like, tree.Like)
            return tree.Like(like.operand, like.word, like.pattern, _expr(node.expression))
        case exp.Lambda():
            return tree.Lambda(node.expressions[0].name, _expr(node.this))
        case exp.Overlay():
            parts = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
            return tree.Call("overlay", tuple(_expr(part) for part in parts if part is not None))
        case exp.Anonymous() | exp.Filter():
            return _function(node)
        case exp.Window():
            order, spec = node.args.get("order"), node.args.get("spec")
            return tree.Window(
                _function(node.this),
                tuple(map(_expr, node.args.get("partition_by") or ())),
                _order(order),
                None if spec is None else _frame(spec),
            )
    if type(node) in LIKES:
        like = tree.Like(_expr(node.this), LIKES[type(node)], _expr(node.expression))
        return tree.Not(like) if node.args.get("negate") else like
    return tree.Binary(OPERATORS[type(node)], _expr(node.this), _expr(node.expression))


def _constant(node: exp.Literal) -> Expr:
    text = str(node.this)
    if node.args.get("is_string"):
        return tree.Constant(text, VARCHAR)
    if text.isdecimal():
        value = int(text)
        return tree.Constant(value, INTEGER if value < 2**31 else BIGINT if value < 2**63 else HUGEINT)
    number = Decimal(text)
    digits = -int(number.as_tuple().exponent)
    if "e" in text.lower() or digits > 18:
        return tree.Constant(float(text), DOUBLE)
    precision = max(len(number.as_tuple().digits), digits + 1)
    return tree.Constant(number, SqlType("DECIMAL", precision, digits))


def _case(node: exp.Case) -> Expr:
    branches = tuple((_expr(b.this), _expr(b.args["true"])) for b in node.args["ifs"])
    default = node.args.get("default")
    match branches, None if default is None else _expr(default):
        case ((tree.Call("isnan", (a,)), tree.Cast()),), tree.Binary("+", b, tree.Constant()) if a == b:
            return tree.Canonical(a)
        case made, other:
            return tree.Case(made, other)


def _function(node: exp.Expr) -> Expr:
    where = None
    if isinstance(node, exp.Filter):
        where, node = _expr(node.expression.this), node.this
    name, arguments, distinct, order = str(_call(node)), list(node.expressions), False, None
    if name.lower() not in AGGREGATES:
        made = tuple(map(_expr, arguments))
        return tree.Try(made[0]) if name == "TRY" else tree.Call(name, made)
    if arguments and isinstance(arguments[0], exp.Star):
        arguments = []
    if arguments and isinstance(arguments[0], exp.Order):
        order, arguments = arguments[0], [arguments[0].this]
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct, arguments = True, list(arguments[0].expressions)
    return tree.Aggregate(name, tuple(map(_expr, arguments)), distinct, _order(order), where)


def _frame(spec: exp.Expr) -> tree.Frame:
    def bound(name: str) -> tree.Bound:
        value, side = spec.args[name], str(spec.args.get(f"{name}_side") or "")
        if isinstance(value, str):
            return tree.Bound("CURRENT ROW" if value == "CURRENT ROW" else side)
        return tree.Bound(side, _whole(value))

    kind = str(spec.args["kind"])
    return tree.Frame(kind, bound("start"), None if spec.args.get("end") is None else bound("end"))
