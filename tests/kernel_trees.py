"""Small query trees and the facts of their tables, for tests of the checker."""

from __future__ import annotations

from dataclasses import replace

from dpsql.kernel.facts import ByColumn, ByParent, ByRow, Facts, TableFacts, Unit
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Bound,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    DomainScan,
    Exists,
    Expr,
    Frame,
    IsNull,
    Item,
    Join,
    OrderTerm,
    Paren,
    Query,
    Scan,
    Select,
    Source,
    Unary,
    Window,
)
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, VARCHAR


def _table(name: str, unit: Unit | None, columns: str, *unique: str) -> TableFacts:
    types = {"BIGINT": BIGINT, "VARCHAR": VARCHAR, "DOUBLE": DOUBLE}
    listed = tuple((n, types[t]) for n, t in (each.split(" ") for each in columns.split(", ")))
    sets = frozenset(frozenset(each.split(" ")) for each in unique)
    return TableFacts(name, unit, listed, sets, kind="person")


FACTS = Facts(
    (
        _table("visits", ByColumn("user_id"), "user_id BIGINT, page VARCHAR, ms BIGINT, x DOUBLE"),
        _table("users", ByColumn("user_id"), "user_id BIGINT, city VARCHAR, age BIGINT", "user_id"),
        _table("baskets", ByColumn("user_id"), "basket_id BIGINT, user_id BIGINT", "basket_id"),
        _table("goods", ByParent("basket_id", "baskets", "basket_id"), "basket_id BIGINT, sku VARCHAR"),
        _table("logs", ByRow(), "level VARCHAR, ms BIGINT"),
        _table("pages", None, "page VARCHAR, kind VARCHAR", "page"),
        _table("names", None, "page VARCHAR, kind VARCHAR"),
    ),
    (("d_page", VARCHAR),),
    (("d_page", 5),),
)


def c(name: str) -> Column:
    """The column of an item of FROM, from `t.name`."""
    table, _, column = name.partition(".")
    return Column(table, column)


def stored(alias: str, name: str) -> Column:
    return Column(alias, name, stored=True)


def n(value: int) -> Expr:
    return Constant(value, BIGINT)


def select(
    source: Source | None, where: Expr | None = None, group: tuple[Expr, ...] = (), **items: Expr
) -> Select:
    return Select(tuple(Item(expr, name) for name, expr in items.items()), source, where, group)


def there(expr: Expr) -> Expr:
    return IsNull(expr, negated=True)


def eq(left: Expr, right: Expr) -> Expr:
    return Binary("=", left, right)


def both(left: Expr, right: Expr) -> Expr:
    return Binary("AND", left, right)


def rows(table: str, alias: str, *names: str) -> Derived:
    """The rows of a table that names its units, as `u` and the columns `c0`, .."""
    listed = {f"c{i}": stored("b", name) for i, name in enumerate(names)}
    found = select(Scan(table, "b"), there(stored("b", "user_id")), (), u=stored("b", "user_id"), **listed)
    return Derived(found, alias)


def public(table: str, alias: str) -> Derived:
    found = select(Scan(table, "b"), c0=stored("b", "page"), c1=stored("b", "kind"))
    return Derived(found, alias)


def count(x: str) -> Aggregate:
    return Aggregate("COUNT", (c(x),))


def units(x: str) -> Aggregate:
    return Aggregate("COUNT", (c(x),), distinct=True)


def total(x: Expr) -> Aggregate:
    return Aggregate("SUM", (x,))


def zero(x: Expr) -> Expr:
    return Call("COALESCE", (x, n(0)))


def number(x: Expr) -> Expr:
    """A sum as the number of a query."""
    return zero(Cast(x, BIGINT))


def joined(left: Source, right: Source, on: Expr, kind: str = "INNER") -> Join:
    return Join(left, kind, right, on)


def numbered(alias: str, *by: str, order: str = "c0") -> Expr:
    terms = (
        OrderTerm(Call("hash", (c(f"{alias}.u"), c(f"{alias}.{order}")))),
        OrderTerm(c(f"{alias}.{order}")),
    )
    return Window(Call("ROW_NUMBER", ()), tuple(c(f"{alias}.{name}") for name in by), terms)


VISITS = rows("visits", "s", "page", "ms", "user_id")
USERS = rows("users", "s", "city", "age")
PER_UNIT = Derived(select(VISITS, there(c("s.u")), (c("s.u"),), u=c("s.u"), r0=count("s.u")), "w")
"""One row a unit, with the number of its rows."""
PER_PAGE = select(VISITS, there(c("s.u")), (c("s.u"), c("s.c0")), u=c("s.u"), k0=c("s.c0"), r0=count("s.u"))
"""One row a unit and page."""
DOMAIN = Derived(Select((Item(c(".v")), Item(c(".o"))), DomainScan("d_page")), "d")


def in_domain(groups: Query, domain: Source = DOMAIN, kind: str = "LEFT", **more: Expr) -> Select:
    """The groups of a declared domain, with the number `n0`."""
    on = Binary("IS NOT DISTINCT FROM", c("g.k0"), c("d.v"))
    return select(
        joined(domain, Derived(groups, "g"), on, kind), None, (), k0=c("d.v"), n0=zero(c("g.n0")), **more
    )


def by_page(value: Expr, source: Source = VISITS) -> Select:
    return select(source, None, (c("s.c0"),), k0=c("s.c0"), n0=value)


def weighted(first: Expr, scaled: Expr, most: int = 7, weight: str = "w.a0") -> Expr:
    """CASE WHEN a <= C THEN x ELSE x * C // a END."""
    share = Paren(Binary("//", Paren(Binary("*", scaled, n(most))), c(weight)))
    return Case(((Binary("<=", c(weight), n(most)), first),), share)


def with_whole(partition: tuple[Expr, ...]) -> Derived:
    """The rows of a unit and page, with the number of all rows of the unit, at least 1."""
    whole = Call("GREATEST", (Window(total(c("v.r0")), partition), n(1)))
    source = Derived(PER_PAGE, "v")
    return Derived(select(source, u=c("v.u"), k0=c("v.k0"), r0=c("v.r0"), a0=whole), "w")


def sum_of_weights(value: Expr, partition: tuple[Expr, ...] = (c("v.u"),)) -> Select:
    kept = Cast(
        Call("LEAST", (Call("GREATEST", (zero(total(value)), Paren(minus(1 << 60)))), n(1 << 60))), BIGINT
    )
    groups = select(with_whole(partition), None, (c("w.k0"),), k0=c("w.k0"), n0=kept)
    return in_domain(groups)


def minus(value: int) -> Expr:
    return Unary("-", n(value))


def kept_groups(most: int, partition: tuple[str, ...] = ("u",)) -> Select:
    """Units by page, of which each is kept to some pages."""
    pairs = replace(select(VISITS, there(c("s.u")), u=c("s.u"), c0=c("s.c0")), distinct=True)
    ranked = select(Derived(pairs, "x"), u=c("x.u"), c0=c("x.c0"), r=numbered("x", *partition))
    on = both(eq(c("y.u"), c("z.u")), Binary("IS NOT DISTINCT FROM", c("y.c0"), c("z.c0")))
    y = rows("visits", "y", "page")
    kept = select(
        joined(y, Derived(ranked, "z"), on), Binary("<=", c("z.r"), n(most)), u=c("y.u"), c0=c("y.c0")
    )
    groups = by_page(units("s.u"), Derived(kept, "s"))
    return select(Derived(groups, "g"), Binary(">", c("g.n0"), n(0)), k0=c("g.k0"), n0=c("g.n0"))


def values_kept(most: int, value: str = "s.c1") -> Select:
    """Different values, of which each unit keeps some."""
    order = (OrderTerm(Call("hash", (c("s.u"), c(value)))), OrderTerm(c(value)))
    rank = Window(Call("DENSE_RANK", ()), (c("s.u"), c("s.c0"), IsNull(c("s.c1"))), order)
    kept = Case(((both(there(c("s.u")), Binary("<=", rank, n(most))), c("s.c1")),))
    below = Derived(select(VISITS, u=c("s.u"), c0=c("s.c0"), v0=kept), "s")
    return in_domain(by_page(units("s.v0"), below))


def merged(most: int, most_of_units: int, inner: Derived = VISITS) -> Select:
    """Rows weighed by a bound, where units with few rows share one row in each group."""
    numbers = select(inner, there(c("s.u")), (c("s.u"),), u=c("s.u"), a0=count("s.u"))
    large = select(Derived(numbers, "n"), Binary(">", c("n.a0"), n(most_of_units)), u=c("n.u"), a0=c("n.a0"))
    whole = Cast(Call("GREATEST", (Aggregate("MAX", (c("h.a0"),)), n(1))), HUGEINT)
    shared = select(
        joined(VISITS, Derived(large, "h"), eq(c("h.u"), c("s.u")), "LEFT"),
        there(c("s.u")),
        (c("h.u"), c("s.c0")),
        u=c("h.u"),
        k0=c("s.c0"),
        r0=count("s.u"),
        a0=whole,
    )
    value = weighted(c("w.r0"), c("w.r0"), most)
    clamped = Call("LEAST", (Call("GREATEST", (zero(total(value)), Paren(minus(1 << 60)))), n(1 << 60)))
    groups = select(Derived(shared, "w"), None, (c("w.k0"),), k0=c("w.k0"), n0=Cast(clamped, BIGINT))
    return in_domain(groups)


def telescoped(offset_of: str = "w.u", before: Expr | None = None) -> Select:
    """Rows weighed by differences of rounded running sums."""
    order = (OrderTerm(c("v.k0")),)
    frame = Frame("ROWS", Bound("PRECEDING"))
    running = Window(total(c("v.r0")), (c("v.u"),), order, frame)
    whole = Call("GREATEST", (Window(total(c("v.r0")), (c("v.u"),)), n(1)))
    source = select(Derived(PER_PAGE, "v"), u=c("v.u"), k0=c("v.k0"), r0=c("v.r0"), a0=whole, b0=running)
    hashed = Cast(Call("hash", (c(offset_of), n(0))), HUGEINT)
    rest = Paren(Binary("%", hashed, c("w.a0")))
    offset = Paren(Binary("%", Paren(Binary("+", rest, c("w.a0"))), c("w.a0")))

    def scaled(x: Expr) -> Expr:
        product = Paren(Binary("*", Call("LEAST", (c("w.a0"), n(7))), x))
        return Paren(Binary("//", Paren(Binary("+", product, offset)), c("w.a0")))

    less = before or Paren(Binary("-", c("w.b0"), c("w.r0")))
    value = Case(
        ((Binary("<=", c("w.a0"), n(7)), c("w.r0")),),
        Cast(Paren(Binary("-", scaled(c("w.b0")), scaled(less))), BIGINT),
    )
    groups = select(Derived(source, "w"), None, (c("w.k0"),), k0=c("w.k0"), n0=number(total(value)))
    return in_domain(groups)


def tied(on: Expr) -> Exists:
    return Exists(Select((Item(n(1)),), rows("visits", "e", "page"), on))


def cut(x: Expr, low: int, high: int) -> Expr:
    return Case(((Binary("<", x, n(low)), n(low)), (Binary(">", x, n(high)), n(high))), x)


GOODS = select(
    joined(
        Scan("goods", "b"),
        Derived(
            select(
                Scan("baskets", "p"),
                there(stored("p", "user_id")),
                (stored("p", "basket_id"),),
                k=stored("p", "basket_id"),
                u=Aggregate("MIN", (stored("p", "user_id"),)),
            ),
            "q",
        ),
        eq(stored("b", "basket_id"), c("q.k")),
    ),
    u=c("q.u"),
    c0=stored("b", "sku"),
)
ROWS = Derived(
    select(
        Scan("logs", "b"),
        u=Constant(value=True, type=BOOLEAN),
        c0=stored("b", "level"),
        c1=stored("b", "ms"),
    ),
    "s",
)
TWO = rows("users", "t", "city")
