"""The rules of the checker: of each a small query that it certifies, and a near miss that it refuses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from dpsql.errors import InternalError
from dpsql.kernel.check import Certificate, Keys, NotCertified
from dpsql.kernel.tree import (
    Aggregate,
    Argument,
    Binary,
    Call,
    CappedRows,
    CappedSum,
    Constant,
    Decided,
    Derived,
    DomainScan,
    Expr,
    FewUnits,
    InQuery,
    Item,
    KeptValues,
    Moment,
    Paren,
    Query,
    RowSum,
    Scan,
    Select,
    SetOperation,
    Units,
    UnitValue,
    WeightedRows,
    Window,
)
from dpsql.types import BIGINT, INTEGER, NULL, VARCHAR
from tests.counted_nodes import certify
from tests.kernel_trees import (
    AGES,
    CELLS,
    DOMAIN,
    FACTS,
    GOODS,
    PER_UNIT,
    ROWS,
    TWO,
    USERS,
    VISITS,
    both,
    by_page,
    c,
    count,
    cut,
    eq,
    in_domain,
    joined,
    kept_groups,
    n,
    number,
    numbered,
    of_units,
    of_units_rows,
    public,
    rows,
    select,
    stored,
    there,
    tied,
    total,
    units,
)


def with_condition(query: Query, condition: Expr) -> Select:
    assert isinstance(query, Select)
    assert query.where is not None
    return replace(query, where=both(query.where, condition))


@dataclass(frozen=True)
class Rule:
    """A rule: what it certifies, with the change of `n0` and its total, and what is refused for what."""

    name: str
    accepted: Query
    low: int
    high: int
    total: int | None
    refused: Query
    rule: str


CASES = [
    Rule(
        "units",
        select(VISITS, n0=units("s.u")),
        0,
        1,
        1,
        select(VISITS, n0=units("s.c1")),
        "numbers of what are no rows of units",
    ),
    Rule(
        "single rows",
        select(USERS, n0=count("s.u")),
        0,
        1,
        1,
        select(VISITS, n0=count("s.u")),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "scan",
        select(USERS, n0=units("s.u")),
        0,
        1,
        1,
        select(Derived(select(Scan("visits", "b"), c0=stored("b", "ms")), "s"), n0=count("s.c0")),
        "a projection without the unit",
    ),
    Rule(
        "declared groups",
        in_domain(by_page(units("s.u"))),
        0,
        1,
        None,
        in_domain(by_page(units("s.u")), domain=Derived(select(public("names", "x"), v=c("x.c0")), "d")),
        "a domain that may have a group twice",
    ),
    Rule(
        "missing groups count 0",
        in_domain(by_page(units("s.u"))),
        0,
        1,
        None,
        select(
            joined(DOMAIN, Derived(by_page(units("s.u")), "g"), eq(c("g.k0"), c("d.v")), "LEFT"),
            k0=c("d.v"),
            n0=c("g.n0"),
        ),
        "a join of rows without a unit",
    ),
    Rule(
        "unknown groups",
        kept_groups(3),
        0,
        1,
        3,
        by_page(units("s.u")),
        "groups of private keys, whatever their numbers are",
    ),
    Rule(
        "sum of single rows",
        select(PER_UNIT, n0=number(total(Call("LEAST", (c("w.r0"), n(4)))))),
        0,
        4,
        4,
        select(VISITS, n0=number(total(cut(c("s.c1"), 0, 4)))),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "join of units",
        select(joined(rows("visits", "s", "page"), TWO, eq(c("s.u"), c("t.u"))), n0=units("s.u")),
        0,
        1,
        1,
        select(joined(rows("visits", "s", "page"), TWO, eq(c("s.c0"), c("t.c0"))), n0=units("s.u")),
        "a join of private rows without equal units",
    ),
    Rule(
        "join with a unique column",
        select(
            joined(rows("users", "s", "city"), public("pages", "p"), eq(c("s.c0"), c("p.c0"))),
            n0=count("s.u"),
        ),
        0,
        1,
        1,
        select(
            joined(rows("users", "s", "city"), public("names", "p"), eq(c("s.c0"), c("p.c0"))),
            n0=count("s.u"),
        ),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "unmatched public rows",
        select(
            joined(public("pages", "p"), rows("visits", "s", "page"), eq(c("s.c0"), c("p.c0")), "LEFT"),
            n0=units("s.u"),
        ),
        0,
        1,
        1,
        select(
            joined(public("pages", "p"), rows("users", "s", "city"), eq(c("s.c0"), c("p.c0")), "LEFT"),
            n0=number(total(n(1))),
        ),
        "a sum of rows without a unit",
    ),
    Rule(
        "public rows kept by private ones",
        select(
            joined(rows("visits", "s", "page"), public("pages", "p"), eq(c("s.c0"), c("p.c0")), "SEMI"),
            n0=units("s.u"),
        ),
        0,
        1,
        1,
        select(
            joined(public("pages", "p"), rows("visits", "s", "page"), eq(c("s.c0"), c("p.c0")), "SEMI"),
            n0=Aggregate("COUNT"),
        ),
        "public rows that private ones keep or leave out",
    ),
    Rule(
        "subquery of the unit",
        select(VISITS, tied(eq(c("e.u"), c("s.u"))), n0=units("s.u")),
        0,
        1,
        1,
        select(VISITS, tied(eq(c("e.c0"), c("s.c0"))), n0=units("s.u")),
        "a subquery that is not tied to the unit of the row",
    ),
    Rule(
        "IN of units",
        select(
            VISITS,
            InQuery(
                c("s.u"),
                select(rows("users", "e", "city"), eq(c("e.c0"), Constant("X", VARCHAR)), u=c("e.u")),
            ),
            n0=units("s.u"),
        ),
        0,
        1,
        1,
        select(
            VISITS,
            InQuery(c("s.c0"), select(rows("users", "e", "city"), None, c0=c("e.c0"))),
            n0=units("s.u"),
        ),
        "a subquery that is not tied to the unit of the row",
    ),
    Rule(
        "set operation",
        select(
            Derived(
                SetOperation(
                    select(VISITS, u=c("s.u"), c0=c("s.c0")), "UNION", select(USERS, u=c("s.u"), c0=c("s.c0"))
                ),
                "s",
            ),
            eq(c("s.c0"), Constant("a", VARCHAR)),
            n0=count("s.u"),
        ),
        0,
        1,
        1,
        select(
            Derived(
                SetOperation(
                    select(VISITS, u=c("s.u"), c0=c("s.c1")), "UNION", select(USERS, c0=c("s.c1"), u=c("s.u"))
                ),
                "s",
            ),
            n0=units("s.u"),
        ),
        "a set operation of rows with units in different columns",
    ),
    Rule(
        "window of the unit",
        select(
            Derived(select(VISITS, u=c("s.u"), r=numbered("s", "u")), "s"),
            eq(c("s.r"), n(1)),
            n0=count("s.u"),
        ),
        0,
        1,
        1,
        select(
            Derived(select(VISITS, u=c("s.u"), r=Window(Aggregate("COUNT"), (c("s.c0"),))), "s"),
            eq(c("s.r"), n(1)),
            n0=count("s.u"),
        ),
        "a window over rows of several units",
    ),
    Rule(
        "unit of the parent",
        select(Derived(GOODS, "s"), n0=units("s.u")),
        0,
        1,
        1,
        select(
            Derived(replace(GOODS, source=replace(GOODS.source, on=eq(stored("b", "sku"), c("q.k")))), "s"),  # type: ignore[type-var]
            n0=units("s.u"),
        ),
        "",
    ),
    Rule(
        "row units",
        select(ROWS, n0=count("s.u")),
        0,
        1,
        1,
        select(joined(ROWS, public("names", "p"), eq(c("s.c0"), c("p.c0"))), n0=count("s.u")),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "units by page",
        in_domain(of_units(Units((), single=False))),
        0,
        1,
        None,
        in_domain(of_units(Units((), single=True), alone=False)),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "capped rows",
        in_domain(of_units(CappedRows((), 4, different=False))),
        0,
        4,
        None,
        in_domain(of_units(CappedRows((), 0, different=False))),
        "a bound below 1",
    ),
    Rule(
        "kept values",
        in_domain(of_units(KeptValues((c("s.f0"),), 4, cut=True))),
        0,
        4,
        None,
        in_domain(of_units(KeptValues((c("s.f0"),), 1, cut=False))),
        "a number of rows of which a unit may have any number",
    ),
    Rule(
        "telescoped rows",
        in_domain(of_units(WeightedRows((), 7))),
        0,
        7,
        7,
        in_domain(of_units(WeightedRows((c("t.c0"),), 7))),
        "",
    ),
    Rule(
        "first groups",
        in_domain(of_units(FewUnits((), False, 3))),
        0,
        1,
        3,
        in_domain(of_units(FewUnits((), False, 0))),
        "a bound below 1",
    ),
    Rule(
        "row share",
        in_domain(of_units(RowSum((c("s.f0"),), 7, 1, single=False))),
        -14,
        21,
        21,
        in_domain(of_units(RowSum((c("s.k0"),), 7, 1, single=False))),
        "arithmetic on dates outside TRY",
    ),
    Rule(
        "row share",
        in_domain(of_units(RowSum((c("s.f0"),), 7, 10, single=False))),
        -140,
        210,
        210,
        in_domain(of_units(RowSum((c("s.f0"),), 7, 0, single=False))),
        "a bound below 1",
    ),
    Rule(
        "capped sum",
        in_domain(of_units(CappedSum((c("s.f1"),), 9, 0, BIGINT, 1, single=False))),
        -9,
        9,
        9,
        in_domain(of_units(CappedSum((c("s.f1"),), 9, 0, INTEGER, 1, single=False))),
        "",
    ),
    Rule(
        "moments",
        in_domain(of_units(Moment((c("s.f2"),), 7, 1, 5, 2, 1, nulls=False, single=False))),
        0,
        175,
        175,
        in_domain(of_units(Moment((c("s.f2"),), 7, 1, 4, 2, 1, nulls=False, single=False))),
        "moments of values that do not lie within them",
    ),
    Rule(
        "value of a unit",
        in_domain(of_units(UnitValue((c("s.f0"),), cut(Argument(0), -3, 4), None))),
        -3,
        4,
        None,
        in_domain(of_units(UnitValue((c("s.f0"),), cut(c("w.r0"), -3, 4), None))),
        "a value of a unit that reads more than its sums",
    ),
    Rule(
        "the rows of units that share a row",
        in_domain(of_units(WeightedRows((), 7))),
        0,
        7,
        7,
        in_domain(of_units(WeightedRows((), 7), alone=of_units_rows(there(stored("b", "ms"))))),
        "units that are measured by other rows",
    ),
    Rule(
        "kept groups",
        kept_groups(3),
        0,
        1,
        3,
        kept_groups(0),
        "groups of units that are not those of the rows",
    ),
    Rule(
        "the text means the tree",
        select(
            AGES, n0=number(total(cut(Binary("-", c("s.c1"), Paren(Binary("-", c("s.c1"), n(2)))), 0, 9)))
        ),
        0,
        9,
        9,
        select(AGES, n0=number(total(cut(Binary("-", c("s.c1"), Binary("-", c("s.c1"), n(2))), 0, 9)))),
        "an operand that binds less tightly than its operator",
    ),
    Rule(
        "names",
        select(USERS, n0=units("s.u")),
        0,
        1,
        1,
        select(Derived(Select((Item(c("s.c1"), "u"), Item(c("s.u"), "u")), USERS), "t"), n0=units("t.u")),
        "two columns of one name",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rule(case: Rule) -> None:
    found = certify(case.accepted, FACTS)
    change = found.number("n0")
    assert change is not None
    assert (change.low, change.high, change.total) == (case.low, case.high, case.total)
    with pytest.raises(NotCertified) as refused:
        certify(case.refused, FACTS)
    assert case.rule in refused.value.rule


def test_sampled_rows() -> None:
    found = certify(CELLS, FACTS)
    change = found.number("n1")
    assert change is not None
    assert (change.low, change.high, change.total, found.keys) == (0, 4, 4, Keys.CELLS)
    with pytest.raises(NotCertified, match="a column of no item of FROM"):
        certify(replace(CELLS, keys=1), FACTS)


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(NotCertified):
        certify(select(rows("strangers", "s"), n0=units("s.u")), FACTS)
    with pytest.raises(NotCertified):
        certify(Select((Item(c(".v"), "n0"),), DomainScan("d_other")), FACTS)


def test_the_kinds_of_groups() -> None:
    assert certify(select(USERS, n0=units("s.u")), FACTS).keys is Keys.ONE
    assert certify(in_domain(by_page(units("s.u"))), FACTS).keys is Keys.DECLARED
    found = certify(kept_groups(3), FACTS)
    assert (found.keys, found.decides, found.most_groups) == (Keys.UNKNOWN, "n0", 3)


def test_facts_of_the_unit_are_one_group() -> None:
    cities = select(USERS, None, (c("s.c0"),), k0=c("s.c0"), n0=count("s.u"))
    assert certify(Decided(cities, 1, 1, 0), FACTS).most_groups == 1
    assert certify(Decided(by_page(units("s.u")), 1, 1, 0), FACTS).most_groups is None


def test_the_derivation_says_why() -> None:
    found = certify(select(PER_UNIT, n0=number(total(Call("LEAST", (c("w.r0"), n(4)))))), FACTS)
    assert [step.rule for step in found.derivation] == [
        "scan",
        "group by unit",
        "value of a unit",
        "numbers of groups",
    ]
    assert str(found.derivation[2]) == "query: a unit adds from 0 to 4 in each group [value of a unit]"


def test_only_certify_makes_a_certificate() -> None:
    found = certify(select(USERS, n0=units("s.u")), FACTS)
    with pytest.raises(InternalError):
        replace(found, most_groups=2, seal=None)
    with pytest.raises(InternalError):
        Certificate(
            found.query, (), Keys.ONE, (), (), 1, None, None, (), (), False, False, (), (), None, (), None
        )


def test_columns_are_compared_without_case() -> None:
    unit = stored("b", "User_ID")
    spelled = Derived(select(Scan("Visits", "b"), there(unit), u=unit), "s")
    assert certify(select(spelled, n0=units("s.u")), FACTS).number("n0") is not None


def test_a_null_is_no_unit() -> None:
    strays = Derived(select(Scan("users", "b"), u=stored("b", "user_id"), c0=stored("b", "age")), "s")
    with pytest.raises(NotCertified, match="a sum of rows without a unit"):
        certify(select(strays, n0=number(total(cut(c("s.c0"), 0, 9)))), FACTS)
    assert certify(select(strays, n0=units("s.u")), FACTS).keys is Keys.ONE


def test_null_is_a_group_of_a_domain_once() -> None:
    null = select(None, v=Constant(None, NULL), o=n(1 << 62))
    listed = select(DOMAIN, v=c("d.v"), o=c("d.o"))
    once = Derived(SetOperation(listed, "UNION ALL", null), "d")
    found = certify(in_domain(by_page(units("s.u")), once, ordered=True), FACTS)
    assert found.ordered_by(frozenset(("o0",)))
    twice = Derived(SetOperation(SetOperation(listed, "UNION ALL", null), "UNION ALL", null), "d")
    with pytest.raises(NotCertified, match="a domain that may have a group twice"):
        certify(in_domain(by_page(units("s.u")), twice), FACTS)
