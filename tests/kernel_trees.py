"""Small query trees and the facts of their tables, for tests of the checker."""

from __future__ import annotations

from dataclasses import replace

from dpsql.kernel.facts import ByColumn, ByParent, ByRow, Facts, TableFacts, Unit
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Bounded,
    Call,
    Candidates,
    Case,
    Cast,
    Column,
    Constant,
    Counted,
    Decided,
    Derived,
    DomainScan,
    Exists,
    Expr,
    IsNull,
    Item,
    Join,
    OnDomain,
    OrderTerm,
    Query,
    Sampled,
    Scan,
    Select,
    Source,
    Units,
    Weighted,
    Window,
    conjunction,
)
from dpsql.kernel.tree.exact import whole
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR


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
    return whole(value)


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


def in_domain(
    groups: Query, domain: Derived = DOMAIN, numbers: int = 1, *, ordered: bool = False
) -> OnDomain:
    """The groups of a declared domain, with the number `n0`."""
    return OnDomain(groups, numbers, (Candidates(domain.query, (0,), True, ordered),), ordered)


def by_page(value: Expr, source: Source = VISITS) -> Select:
    return select(source, None, (c("s.c0"),), k0=c("s.c0"), n0=value)


def of_units_rows(*more: Expr) -> Select:
    """Rows by page, with values from -2 to 3, without bounds, and from 0 to 5."""
    ms, unit = stored("b", "ms"), stored("b", "user_id")
    where = conjunction((there(unit), *more))
    values = {"f0": cut(ms, -2, 3), "f1": ms, "f2": cut(ms, 0, 5)}
    return select(Scan("visits", "b"), where, (), u=unit, k0=stored("b", "page"), **values)


def of_units(part: Counted, alone: Query | bool = True) -> Weighted:
    """A number of the rows of units by page; without `alone`, each unit has rows of its own."""
    rows = of_units_rows()
    return Weighted(rows, 1, 3, ((part,),), (rows if alone is True else alone) or None)


def kept_groups(most: int) -> Decided:
    """Units by page, of which each is kept to some pages."""
    rows = of_units_rows()
    listed = select(Derived(rows, "s"), there(c("s.u")), u=c("s.u"), k0=c("s.k0"))
    few = Bounded(rows, ("k0", "f0", "f1", "f2"), ("k0",), most, replace(listed, distinct=True))
    groups = Weighted(few, 1, 3, ((Units((), single=False),),))
    return Decided(groups, 1, 1, 0)


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
AGES = Derived(select(USERS, u=c("s.u"), c1=cut(c("s.c1"), 0, 99)), "s")
CELLS = Sampled(select(Derived(of_units_rows(), "x"), u=c("x.u"), f0=c("x.f2")), 0, 4)
"""The cells of values, of which each unit keeps four."""
