"""The date functions of seven dialects mean what their documentation says, or are refused.

`date_functions.csv` has a line for each: the dialect, the call, and its documented rule. Rules are written
here in Python, over 200 pairs of days, without the engine.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.errors import QueryRefused
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type

FILE = Path(__file__).with_name("date_functions.csv")
ROWS = [tuple(row.values()) for row in csv.DictReader(FILE.read_text("utf-8").splitlines())]
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Rule = Callable[[date, date], object]


def _full_weeks(a: date, b: date) -> int:
    days = (b - a).days
    return days // 7 if days >= 0 else -(-days // 7)


def _full_months(a: date, b: date) -> int:
    if b < a:
        return -_full_months(b, a)
    months = (b.year - a.year) * 12 + b.month - a.month
    last = (b + timedelta(1)).month != b.month
    return months if b.day >= a.day or last else months - 1


def _weeks_from(first: int) -> Rule:
    """Count the days `first` (0 is Monday) after the earlier day, up to the later one; backwards negative."""

    def borders(a: date, b: date) -> int:
        if b < a:
            return -borders(b, a)
        return sum((a + timedelta(n)).weekday() == first for n in range(1, (b - a).days + 1))

    return borders


RULES: dict[str, Rule] = {
    "days": lambda a, b: (b - a).days,
    "hours of days": lambda a, b: 24 * (b - a).days,
    "months": lambda a, b: (b.year - a.year) * 12 + b.month - a.month,
    "quarters": lambda a, b: (b.year - a.year) * 4 + (b.month - 1) // 3 - (a.month - 1) // 3,
    "years": lambda a, b: b.year - a.year,
    "full weeks": _full_weeks,
    "full months": _full_months,
    "monday": lambda a, _: a - timedelta(a.weekday()),
    "first of month": lambda a, _: a.replace(day=1),
    "seven days later": lambda a, _: a + timedelta(7),
    "seven days earlier": lambda a, _: a - timedelta(7),
    **{f"weeks from {name}": _weeks_from(place) for place, name in enumerate(WEEKDAYS)},
}


def pairs() -> list[tuple[date, date]]:
    """Return 200 pairs of days: near each other, years apart, and in both orders."""
    rng, start = Random(20261128), date(2019, 12, 25)
    found = []
    for n in range(200):
        a = start + timedelta(rng.randrange(1500))
        b = a + timedelta(rng.randrange(-20, 21) if n % 2 else rng.randrange(-900, 901))
        found.append((a, b))
    return found


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("dates")
    firsts, seconds = (list(each) for each in zip(*pairs(), strict=True))
    table = pa.table({"user_id": list(range(200)), "a": firsts, "b": seconds})
    pq.write_table(table, folder / "t.parquet")
    (folder / "dpsql.toml").write_text(
        '[budget]\nepsilon = 1e9\ndefault_epsilon = 1\nledger = "ledger.sqlite"\n'
        '[tables.t]\nsource = "t.parquet"\nunit = "user_id"\nunique = [["user_id"]]\n'
    )
    opened = Session(load(folder / "dpsql.toml"))
    yield opened
    opened.close()


@pytest.mark.parametrize(("dialect", "written", "rule"), ROWS, ids=str)
@pytest.mark.sampled(3)
def test_a_date_function_has_its_documented_rule(
    session: Session, dialect: str, written: str, rule: str
) -> None:
    assert dialect
    text = f"SELECT COUNT(*) AS n FROM t WHERE ({written}) IS NOT NULL"
    if rule == "refused":
        with pytest.raises(QueryRefused):
            session.prepare(text)
        return
    session.prepare(text)  # it is one of private columns, too
    read = of_type(parse(f"SELECT {written} AS x FROM t"), Query)
    sql = read.tree.sql("duckdb", normalize_functions=False).replace("dpsql_fn_", "")
    found = _on_pairs(sql)
    expected = [RULES[rule](a, b) for a, b in pairs()]
    assert [v.date() if hasattr(v, "date") else v for v in found] == expected


def _on_pairs(sql: str) -> list[object]:
    firsts, seconds = (list(each) for each in zip(*pairs(), strict=True))
    with duckdb.cursor() as connection:
        connection.register("t", pa.table({"a": firsts, "b": seconds}))
        return [row[0] for row in connection.execute(sql).fetchall()]


def test_the_private_count_has_the_rule_too(session: Session) -> None:
    """The compiled condition selects the pairs that Python selects."""
    for written, rule in (
        ("DATE_DIFF(b, a, ISOWEEK)", "weeks from Monday"),
        ("DATE_DIFF(b, a, WEEK)", "weeks from Sunday"),
    ):
        options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6)"
        answer = session.run(f"{options} COUNT(*) AS n FROM t WHERE {written} = 1").table
        assert round(answer.column("n")[0].as_py()) == sum(RULES[rule](a, b) == 1 for a, b in pairs())


@pytest.mark.parametrize(
    ("call", "borders", "full"),
    [
        ("TIMESTAMPDIFF(DAY, a, b)", "days", "days"),
        ("TIMESTAMPDIFF(MONTH, a, b)", "months", "full months"),
        ("TIMESTAMPDIFF(WEEK, a, b)", "weeks from Monday", "full weeks"),
        ("DATEDIFF(month, a, b)", "months", "full months"),
        ("DATEDIFF(week, a, b)", "weeks from Monday", "full weeks"),
    ],
)
def test_the_hint_says_what_each_form_counts(session: Session, call: str, borders: str, full: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(f"SELECT COUNT(*) FROM t WHERE {call} > 1")
    hint = str(caught.value.hint)
    first, _, rest = hint.partition(" counts boundaries, ")
    second = rest.removesuffix(" full units")
    for form, rule in ((first, borders), (second, full)):
        session.prepare(f"SELECT COUNT(*) FROM t WHERE {form} > 1")
        assert _on_pairs(f"SELECT {form} FROM t") == [RULES[rule](a, b) for a, b in pairs()]
