"""Verify privacy units: report rows without a unit, and other columns that hold units.

Names of columns give hints: which one identifies a person, which one a row of a table. Values decide: a
column whose values are mostly units is reported, and so are rows that belong to one unit as declared and to
another one in another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import accumulate

from dpsql.engines.exact_queries import ExactQueries, UnreadableError
from dpsql.errors import with_article
from dpsql.lazy_pattern import lazy_pattern
from dpsql.owner.findings import Report, number_of
from dpsql.policy import Policy, Table, UnitColumn, UnitPeriod, UnitRow, UnitVia, fold, path_of
from dpsql.policy.names import key_path
from dpsql.policy.references import add_article, are_alike
from dpsql.types import SqlType

_PEOPLE = (
    "user|person|people|customer|client|patient|member|account|employee|subscriber|student|guest|tenant|"
    "citizen|voter|resident|passenger|player|household"
)
_KEY = r"(?:id|key|uuid|guid|number|no|nr|code)"


def singular(table: str) -> str:
    """Return the singular of a table's name, for one row of it.

    >>> singular("Orders"), singular("categories"), singular("people"), singular("address")
    ('order', 'category', 'person', 'address')
    """
    word = fold(table)
    for plural, one in (("people", "person"), ("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(plural):
            return word.removesuffix(plural) + one
    return word if word.endswith("ss") else word.removesuffix("s")


def is_key_name(column: str) -> bool:
    """Whether a column is named as keys are: `order_id`, `id`, `invoice_number`."""
    return re.fullmatch(rf".+_{_KEY}|.+(?:Id|ID)|{_KEY}", column) is not None


def is_bare_key(column: str) -> bool:
    """Whether a key's name does not say what it identifies, such as `id`: two tables' `id` differ."""
    return not _thing_of_key(column)


def _thing_of_key(column: str) -> str:
    """Return the thing that a key's name refers to: `order` for order_id, empty for id."""
    return re.sub(rf"_?{_KEY}$", "", fold(column))


def names_rows(column: str, table: str, theirs: str) -> bool:
    """Whether `column` of another table is named as a foreign key to the column `theirs` of `table`.

    >>> names_rows("order_id", "orders", "order_id"), names_rows("order_id", "orders", "id")
    (True, True)
    >>> names_rows("product_id", "orders", "product_id"), names_rows("id", "orders", "id")
    (False, False)
    """
    about, one = _thing_of_key(column), singular(table)
    if (
        not about
        or _thing_of_key(theirs) not in ("", about)
        or not (is_key_name(column) and is_key_name(theirs))
    ):
        return False
    return about == one or one.endswith(f"_{about}")


def names_person(column: str, table: str) -> bool:
    """Whether a column is named as the key of people: `customer_id`, or `id` of a table `customers`.

    >>> names_person("customer_id", "orders"), names_person("id", "customers"), names_person("id", "orders")
    (True, True, False)
    """
    about = _thing_of_key(column) or singular(table)
    return is_key_name(column) and re.search(rf"(^|_)(?:{_PEOPLE})$", about) is not None


def kind_word(column: str, table: str) -> str:
    """Return one word for the unit that a column identifies.

    >>> kind_word("nurse_id", "staff"), kind_word("id", "customers"), kind_word("email", "people")
    ('nurse', 'customer', 'email')
    """
    return _thing_of_key(column) or singular(table)


_NAMING = lazy_pattern(
    r"(^|_)(user|person|people|customer|client|patient|member|account|employee|sender|receiver|recipient|from|to|"
    r"by|owner|author|parent|child|friend|partner|spouse|referrer|payer|payee|buyer|seller|caller|callee|"
    r"driver|rider|follower|email|phone)(_|$)",
    re.IGNORECASE,
)
"""Words in a column's name which suggest that it identifies a person."""


def verify_unit(report: Report, inspector: ExactQueries, policy: Policy, table: Table, rows: int) -> None:
    """Report rows without a unit, rows with two, and further columns that hold units."""
    unit = table.unit
    if isinstance(unit, (UnitColumn, UnitVia)):
        _report_ownerless(report, inspector, policy, table, unit, rows)
        if isinstance(unit, UnitPeriod):
            _report_periods(report, inspector, table, unit)
        compared = _verify_second_paths(report, inspector, policy, table)
        _report_second_units(report, inspector, table, unit, compared)


def _report_ownerless(
    report: Report,
    inspector: ExactQueries,
    policy: Policy,
    table: Table,
    unit: UnitColumn | UnitVia,
    rows: int,
) -> None:
    place, nobody = table.place("unit"), inspector.count_ownerless(table.name)
    if isinstance(unit, UnitColumn):
        every, how = f"every row has {with_article(unit.column)}", f"no {unit.column}"
    else:
        path = ", ".join(parent.name for parent in path_of(policy.tables, table))
        every, how = f"every row finds its unit through {path}", f"no unit through {path}"
    never, named = inspector.readers[table.name].never_null, isinstance(unit, UnitColumn)
    if not nobody and named and table.describe_nobodys(lambda column: fold(column) in never):
        listed = json.dumps([*table.unit_columns])
        every += f": not_null = {listed}, if that is so by construction, spares answers a line on others"
    text = f"{number_of(nobody, 'row')} of {rows:,} have {how}: they are never counted"
    report.conclude(nobody, place, text, every, "note")


def _report_periods(report: Report, inspector: ExactQueries, table: Table, unit: UnitPeriod) -> None:
    """Report in how many periods persons have rows, which says how much less a person is protected."""
    place, every = table.place("unit_period"), unit.every
    beyond = inspector.count_beyond_periods(table.name)
    if beyond:
        text = f"{number_of(beyond, 'row')} with a date before the year 1000 or after 2999: leave them out"
        report.add("wrong", place, text)
    found = sorted(inspector.count_periods(table.name, unit))
    persons = sum(n for _, n in found)
    if not persons:
        return
    mean = sum(r * n for r, n in found) / persons
    below = accumulate(n for _, n in found)
    usual = next(r for (r, _), n in zip(found, below, strict=True) if n >= 0.95 * persons)
    text = (
        f"{add_article(unit.kind)} is in {mean:.1f} {every}s on average, 95% in at most {usual:,}, the most"
        f" in {found[-1][0]:,}: what is true of one in k {every}s is protected at k times epsilon"
    )
    report.add("note", place, text)


def _report_second_units(
    report: Report,
    inspector: ExactQueries,
    table: Table,
    unit: UnitColumn | UnitVia,
    compared: Collection[str],
) -> None:
    expected = _unit_type(inspector, unit.kind)
    own = unit.column if isinstance(unit, UnitColumn) else unit.via
    units = inspector.count_units(unit.kind)
    for column, kind in inspector.readers[table.name].columns:
        # Where the owner has listed a column's values, they are known to be public.
        if fold(column) == fold(own) or column in table.domain or _comparable_type(kind) != expected:
            continue
        if fold(column) in compared:
            continue
        values, shared = inspector.count_like_units(table.name, column, unit.kind)
        if looks_like_units(column, values, shared, units):
            every = number_of(values, "value")
            text = (
                f"{shared:,} of its {every} are units as well; a row protects only the unit "
                f"that {own} names, not the one named here"
            )
            report.add("note", table.place("columns", column), text)


def looks_like_units(column: str, values: int, shared: int, units: int) -> bool:
    """Whether a column seems to hold units: most values are units, and its name or their number fits.

    A column of small numbers shares its values with a unit that is numbered from 1, hence the last condition.

    >>> looks_like_units("receiver_id", 50, 50, 1000), looks_like_units("hour", 24, 24, 1000)
    (True, False)
    """
    return (
        values >= 2 and 2 * shared >= values and (_NAMING.search(column) is not None or 5 * shared >= units)
    )


def verify_others(report: Report, inspector: ExactQueries, policy: Policy) -> None:
    """Report tables whose rows seem to belong to units of another table, which they do not protect."""
    private = [t for t in policy.tables.values() if t.unit is not None and not t.trust_source]
    for table in private:
        others = (parent for parent in private if _kind_of_unit(parent) != _kind_of_unit(table))
        texts = (text for parent in others for text in _find_foreign_units(inspector, table, parent))
        # A source that cannot be read was reported before.
        with suppress(UnreadableError):
            if (text := next(texts, None)) is not None:
                report.add("note", table.place("unit"), text)


def _kind_of_unit(table: Table) -> str | None:
    return table.unit.kind if table.unit is not None else None


def _find_foreign_units(inspector: ExactQueries, table: Table, parent: Table) -> Iterator[str]:
    """Yield a text for each column with the name and the values of another table's unit or key."""
    own, owner = table.unit, parent.unit
    if own is None or owner is None or isinstance(owner, UnitRow):
        return
    whom = owner.column if isinstance(owner, UnitColumn) else owner.kind
    unit = f"one row of {table.name}" if isinstance(own, UnitRow) else f"one {own.kind}"
    for column, kind in inspector.readers[table.name].columns:
        for other, expected in inspector.readers[parent.name].columns:
            names_it = names_rows(column, parent.name, other)
            same = fold(column) == fold(other) and not is_bare_key(column)
            is_unit = isinstance(owner, UnitColumn) and fold(other) == fold(owner.column)
            if not (names_it or (same and (is_unit or parent.is_key(other)))):
                continue
            if _comparable_type(kind) != _comparable_type(expected):
                continue
            values, shared = inspector.count_shared(table.name, column, parent.name, other)
            if 2 * shared < max(values, 1):
                continue
            if is_unit:
                said, mend = f"its {column} is the unit of {parent.name}", f'; write unit = "{column}"'
            else:
                said = f"its {column} names a row of {parent.name}, which belongs to one {whom}"
                link = f'via = "{column}", table = "{parent.name}", column = "{other}"'
                mend = f"; write unit = {{ {link} }}"
            yield f"{said}: here only {unit} is protected, not all rows of one {whom}{mend}"


def verify_kinds(report: Report, inspector: ExactQueries, policy: Policy) -> None:
    """Report units of one kind that have two types, and public tables with the column of a unit."""
    types: dict[str, tuple[str, str]] = {}
    columns: dict[str, str] = {}
    for name, table in policy.tables.items():
        if isinstance(table.unit, UnitColumn):
            kinds = {fold(column): kind for column, kind in inspector.readers[name].columns}
            found = _comparable_type(kinds[fold(table.unit.column)])
            first, expected = types.setdefault(table.unit.kind, (name, found))
            columns[fold(table.unit.column)] = name
            if found != expected:
                text = f"is {found}, but units of the same kind in {first} are {expected}: they never match"
                report.add("wrong", key_path("tables", name, "unit"), text)
    for name, table in policy.tables.items():
        for column, _ in inspector.readers[name].columns if table.public else ():
            if fold(column) in columns:
                text = f"is the unit in {columns[fold(column)]}: is it right that all may see it here?"
                report.add("note", key_path("tables", name, "columns", column), text)


def _unit_type(inspector: ExactQueries, kind: str) -> str:
    """Return the type that the units of a kind are compared in."""
    for reader in inspector.readers.values():
        unit = reader.table.unit
        if isinstance(unit, UnitColumn) and unit.kind == kind:
            return _comparable_type({fold(name): k for name, k in reader.columns}[fold(unit.column)])
    return ""


def _comparable_type(kind: SqlType) -> str:
    """Return the type in which values are compared; integers of all widths are one type."""
    return "integer" if kind.integer else str(kind)


def _verify_second_paths(report: Report, inspector: ExactQueries, policy: Policy, table: Table) -> set[str]:
    """Report rows that belong to one unit as declared and to another one in another way.

    Returns the folded names of the columns that name units, which were compared.
    """
    compared = set()
    for column, other in _find_second_paths(inspector, policy, table):
        differ, rows = inspector.count_disagreeing(table.name, other)
        if differ:
            text = (
                f"{differ:,} of {rows:,} rows have another {other.kind} by it than by "
                f"{_describe_way(policy, table)}: the declared one counts, the other is not protected in "
                f"them; correct them, or write unit = {_write_unit(other)} if that is right"
            )
            report.add("note", table.place("columns", column), text)
        if isinstance(other, UnitColumn) and rows:
            compared.add(fold(column))
    return compared


def _find_second_paths(
    inspector: ExactQueries, policy: Policy, table: Table
) -> Iterator[tuple[str, UnitColumn | UnitVia]]:
    """Yield the columns that lead to a unit of the table's kind by their names, each with its way."""
    own = table.unit
    if not isinstance(own, UnitColumn | UnitVia):
        return
    columns, declared = inspector.readers[table.name].columns, _declared_way(own)
    direct = set()
    for parent in policy.tables.values():
        unit = parent.unit
        if parent is table or parent.trust_source or unit is None or unit.kind != own.kind:
            continue
        whom = unit.column if isinstance(unit, UnitColumn) else ""
        for name, kind in columns:
            if name in direct or is_bare_key(name) or fold(name) not in {fold(whom)} - {declared[-1]}:
                continue
            if are_alike(kind, _type_of(inspector, parent, whom)):
                direct.add(name)
                yield name, UnitColumn(name, own.kind)
        if table in path_of(policy.tables, parent):
            continue  # its rows find their unit here
        for key in (column for column in parent.key_columns if fold(column) != fold(whom)):
            for name, kind in columns:
                same = fold(name) == fold(key) and not is_bare_key(name)
                leads = same or names_rows(name, parent.name, key)
                other = (fold(parent.name), fold(name)) != declared
                if leads and other and are_alike(kind, _type_of(inspector, parent, key)):
                    yield name, UnitVia(name, parent.name, key, own.kind)


def _declared_way(unit: UnitColumn | UnitVia) -> tuple[str, str]:
    """Return the table to which the declared way leads first, and the column by which it does."""
    return (fold(unit.table), fold(unit.via)) if isinstance(unit, UnitVia) else ("", fold(unit.column))


def _type_of(inspector: ExactQueries, table: Table, column: str) -> SqlType:
    return next(kind for name, kind in inspector.readers[table.name].columns if fold(name) == fold(column))


def _describe_way(policy: Policy, table: Table) -> str:
    if isinstance(table.unit, UnitColumn):
        return table.unit.column
    return "the path through " + ", ".join(parent.name for parent in path_of(policy.tables, table))


def _write_unit(unit: UnitColumn | UnitVia) -> str:
    """Write a unit as the policy does."""
    if isinstance(unit, UnitVia):
        return f'{{ via = "{unit.via}", table = "{unit.table}", column = "{unit.column}" }}'
    return f'"{unit.column}"' + (
        f' and unit_kind = "{unit.kind}"' if unit.kind != UnitColumn("").kind else ""
    )
