"""The date functions of nine dialects mean what their documentation says, or are refused.

`date_functions.csv` has a line for each: the dialect, the call, its documented rule, and the option `dialect`
of the statement, if it has one. Rules are written here in Python, over 266 pairs of days, without the engine.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.language import Query, parse
from dpsql.session import Session
from tests.narrow import of_type
from tests.support.world import open_world

FILE = Path(__file__).with_name("date_functions.csv")
FORMS_FILE = Path(parse.__code__.co_filename).with_name("dialects.csv")
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


def _whole_months(a: date, b: date) -> int:
    if b < a:
        return -_whole_months(b, a)
    return (b.year - a.year) * 12 + b.month - a.month - (b.day < a.day)


def _weeks_of_january(a: date, _: date) -> int:
    """Count the weeks from Sunday of a year, of which the one of 1 January is the first."""
    first = a.replace(month=1, day=1)
    return sum((first + timedelta(n)).weekday() == 6 for n in range(1, (a - first).days + 1)) + 1


def _slices(origin: date, days: int) -> Rule:
    return lambda a, _: origin + timedelta((a - origin).days // days * days)


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
    "sunday": lambda a, _: a - timedelta(a.isoweekday() % 7),
    "whole months": _whole_months,
    "whole quarters": lambda a, b: int(_whole_months(a, b) / 3),
    "whole years": lambda a, b: int(_whole_months(a, b) / 12),
    "minutes of days": lambda a, b: 24 * 60 * (b - a).days,
    "seconds of days": lambda a, b: 24 * 3600 * (b - a).days,
    "day from Sunday, 0": lambda a, _: a.isoweekday() % 7,
    "text of day from Sunday, 0": lambda a, _: str(a.isoweekday() % 7),
    "day from Sunday, 1": lambda a, _: a.isoweekday() % 7 + 1,
    "day from Monday, 0": lambda a, _: a.weekday(),
    "day from Monday, 1": lambda a, _: a.isoweekday(),
    "ISO week": lambda a, _: a.isocalendar().week,
    "week from Sunday, 0": lambda a, _: int(a.strftime("%U")),
    "week from Monday, 0": lambda a, _: a.strftime("%W"),
    "week of 1 January": _weeks_of_january,
    "number of month": lambda a, _: a.month,
    "name of month": lambda a, _: a.strftime("%B"),
    "Mon": lambda a, _: a.strftime("%b"),
    "Sun": lambda a, _: a.strftime("%a"),
    "Mon-YYYY": lambda a, _: a.strftime("%b-%Y"),
    "MON-YYYY": lambda a, _: a.strftime("%b-%Y").upper(),
    "ten days from 2001": _slices(date(2001, 1, 4), 10),
    "14 days from 2001": _slices(date(2001, 1, 4), 14),
    "ten days from 1970": _slices(date(1970, 1, 1), 10),
    "10 days from 1900": _slices(date(1900, 1, 1), 10),
    "14 days from 1900": _slices(date(1900, 1, 1), 14),
    "seven days later": lambda a, _: a + timedelta(7),
    "seven days earlier": lambda a, _: a - timedelta(7),
    **{f"weeks from {name}": _weeks_from(place) for place, name in enumerate(WEEKDAYS)},
}


def pairs() -> list[tuple[date, date]]:
    """Return 266 pairs of days: near each other, years apart, in both orders, and ends of months."""
    rng, start = Random(20261128), date(2019, 12, 25)
    found = []
    for n in range(200):
        a = start + timedelta(rng.randrange(1500))
        b = a + timedelta(rng.randrange(-20, 21) if n % 2 else rng.randrange(-900, 901))
        found.append((a, b))
    ends = [date(2020, 2, 29), date(2021, 2, 28), date(2020, 1, 31), date(2020, 3, 31), date(2019, 12, 30)]
    ends += [date(2023, 1, 1), date(2024, 1, 1), date(2016, 1, 3)]
    pairs_of_ends = [(a, b) for a in ends for b in ends]
    return [
        *found,
        *pairs_of_ends,
        (date(2020, 2, 29), date(2024, 2, 29)),
        (date(2024, 2, 29), date(2020, 2, 29)),
    ]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    firsts, seconds = (list(each) for each in zip(*pairs(), strict=True))
    table = pa.table({"user_id": list(range(len(firsts))), "a": firsts, "b": seconds})
    with open_world(
        tmp_path_factory.mktemp("dates"),
        '[budget]\nepsilon = 1e9\ndefault_epsilon = 1\nledger = "ledger.sqlite"\n'
        '[tables.t]\nsource = "t.parquet"\nunit = "user_id"\nunique = [["user_id"]]\n',
        t=table,
    ) as opened:
        yield opened


@pytest.mark.parametrize(("dialect", "written", "rule", "option"), ROWS, ids=str)
@pytest.mark.sampled(3)
def test_a_date_function_is_one_of_private_columns_too(
    session: Session, dialect: str, written: str, rule: str, option: str
) -> None:
    assert dialect
    text = f"SELECT {_options(option)}COUNT(*) AS n FROM t WHERE ({written}) IS NOT NULL"
    if rule == "refused":
        with pytest.raises(QueryRefused):
            session.prepare(text)
        return
    session.prepare(text)


def test_each_date_function_has_its_documented_rule() -> None:
    expected = {rule: [RULES[rule](a, b) for a, b in pairs()] for rule in RULES}
    for dialect, written, rule, option in ROWS:
        if rule != "refused":
            read = of_type(parse(f"SELECT {_options(option)}{written} AS x FROM t"), Query)
            found = _on_pairs(read.tree.sql("duckdb", normalize_functions=False).replace("dpsql_fn_", ""))
            days = [v.date() if hasattr(v, "date") else v for v in found]
            assert days == expected[rule], (dialect, written)


def test_the_days_tell_each_rule_from_all_others() -> None:
    """So a call that is read by the rule of another one is noticed."""
    found = [repr([rule(a, b) for a, b in pairs()]) for rule in RULES.values()]
    assert len({*found}) == len(found)


def _options(dialect: str) -> str:
    return f"WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = {dialect}) " if dialect else ""


def _on_pairs(sql: str) -> list[object]:
    firsts, seconds = (list(each) for each in zip(*pairs(), strict=True))
    with duckdb.cursor() as connection:
        connection.register("t", pa.table({"a": firsts, "b": seconds}))
        return [row[0] for row in connection.execute(sql).fetchall()]


def test_each_reading_of_a_dialect_is_tried() -> None:
    forms = list(csv.DictReader(FORMS_FILE.read_text("utf-8").splitlines()))
    tried = {
        (row[1].lower().replace("extract(", "extract ").split("(")[0].split(" from ")[0], row[3])
        for row in ROWS
    }
    for form in forms:
        name = form["written"].partition("(")[0]
        missing = {d for d in form["dialects"].split() if (name, d.upper()) not in tried}
        assert not missing or name == "from_unixtime"


@pytest.mark.parametrize("call", ["dayofweek(a)", "weekday(a)", "week(a)", "EXTRACT(DAYOFWEEK FROM a)"])
def test_what_other_dialects_mean_is_told_where_the_statement_says_none(session: Session, call: str) -> None:
    statement = f"COUNT(*) AS n FROM t WHERE {call} > 1"
    told = of_type(session.prepare(f"SELECT {statement}"), PreparedPrivate).plan.assumed
    assert any("MySQL" in str(each) for each in told)
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = DUCKDB)"
    known = of_type(session.prepare(f"SELECT {options} {statement}"), PreparedPrivate).plan.assumed
    assert not any("MySQL" in str(each) for each in known)


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
    whole, _, other = str(caught.value.hint).partition("; ")
    forms = [whole.split("WHERE ")[1].partition(" > 1 --")[0], other.partition(" counts ")[0]]
    first, second = forms if "counts boundaries" in whole else forms[::-1]
    for form, rule in ((first, borders), (second, full)):
        session.prepare(f"SELECT COUNT(*) FROM t WHERE {form} > 1")
        assert _on_pairs(f"SELECT {form} FROM t") == [RULES[rule](a, b) for a, b in pairs()]
