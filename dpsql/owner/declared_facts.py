"""What a policy declares, for the owner: as proofs have it, whether rows agree, and what its bounds cut.

`read_declared` returns the facts on which proofs rest, as the kernel has them. Declared facts of a table are
verified: unique columns, columns without NULL, domains; and what rows show of facts that the policy leaves
unsaid: single rows of units, and NULLs in keys. Of bounds the shares of rows, units and values that they cut
are shown, exact and for the owner alone; where a kept ladder gives the bound of statements over the whole
table, or could, that is said too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.analysis.bound_ladders import ROWS, columns_of, total_of
from dpsql.engines import open_engine
from dpsql.engines.exact_queries import ExactQueries, UnreadableError
from dpsql.kernel.facts import Facts, unit_words
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import shown
from dpsql.owner.findings import Report, number_of
from dpsql.owner.ladder_listing import default_price, name_of
from dpsql.owner.ladder_releases import has_one_row
from dpsql.owner.units import is_key_name
from dpsql.policy import EnumDomain, Policy, Table, UnitColumn, UnitParts, UnitRow, fold
from dpsql.policy.model import declared_facts_of, facts_of
from dpsql.policy.names import key_path

if TYPE_CHECKING:
    from dpsql.release.kept_ladders import LedgerLadders

COLUMNS = ("table", "rows", "columns", "unique", "never_null")


@dataclass(frozen=True, slots=True)
class DeclaredFacts:
    """What a policy declares of its tables, and which of it proofs use."""

    facts: Facts
    """As declared; the ledger has their hash."""
    used: Facts
    """Without what is not true of the rows of public tables."""
    columns: Mapping[str, str]
    """The columns whose domains are listed, as `table.column`, by the names of the domains' tables."""

    @property
    def table(self) -> pa.Table:
        """The facts as a table of texts: one row for each table, then one for each listed domain."""
        rows = list(self._rows())
        arrays = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)}
        return pa.table(arrays)

    @property
    def text(self) -> str:
        """The facts as text: a paragraph for each table, and one for each listed domain."""
        paragraphs = []
        for name, *cells in self._rows():
            told = zip(COLUMNS[1:], cells, strict=True)
            lines = [f"  {what.replace('_', ' '):<10}  {text}" for what, text in told if text]
            paragraphs.append("\n".join([name, *lines]))
        return "\n".join((*paragraphs, ""))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for table in sorted(self.facts.tables, key=lambda found: found.name):
            used = self.used.table(table.name)
            unused = table.unique - (frozenset() if used is None else used.unique)
            columns = ", ".join(f"{name} {sql_type}" for name, sql_type in table.columns)
            unique = (
                (names[0] if len(names) == 1 else f"({', '.join(names)})")
                + (" (not so in its rows)" if frozenset(names) in unused else "")
                for names in sorted(map(sorted, table.unique))
            )
            yield (
                *(table.name, unit_words(table), columns, ", ".join(unique)),
                ", ".join(sorted(table.not_null)),
            )
        for name, sql_type in sorted(self.facts.domains, key=lambda found: self.columns[found[0]]):
            most = f"distinct public values, {self.facts.places_of(name) or 0:,} at most, in {name}"
            yield f"domain of {self.columns[name]}", most, f"v {sql_type}", "v", "v"


def read_declared(policy: Policy) -> DeclaredFacts:
    """Open the data of a policy, and return what it declares of them; no private row is read."""
    engine = open_engine(policy)
    try:
        known = engine.schema_database
        return DeclaredFacts(
            declared_facts_of(policy, known), facts_of(policy, known), known.domains.columns()
        )
    finally:
        engine.close()


def verify_facts(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report whether the unique facts, the columns without NULL and the complete domains are so."""
    for i, fact in enumerate(table.unique):
        _verify_fact(report, inspector, table, i, fact)
    _verify_not_null(report, inspector, table)
    _verify_not_negative(report, inspector, table)
    for column in table.complete:
        _verify_complete(report, inspector, table, column)


def verify_domains(report: Report, inspector: ExactQueries, table: Table, rows: int) -> None:
    """Report the values outside of domains."""
    for column, domain in table.domain.items():
        if not isinstance(domain, EnumDomain) and column not in table.complete:
            _verify_domain(report, inspector, table, column, rows)


def _verify_fact(
    report: Report, inspector: ExactQueries, table: Table, i: int, fact: tuple[str, ...]
) -> None:
    place = f"{key_path('tables', table.name)}.unique[{i}]"
    values, rows = inspector.count_repeated(table.name, fact)
    text = f"{number_of(values, 'value')} of {', '.join(fact)} stand in more than one row ({rows:,} rows)"
    report.conclude(values, place, text, f"{', '.join(fact)} is unique")


def _verify_not_null(report: Report, inspector: ExactQueries, table: Table) -> None:
    nulls = inspector.count_nulls(table.name, table.not_null)[0] if table.not_null else {}
    unit = {fold(each) for each in table.unit_columns}
    for i, (column, number) in enumerate(nulls.items()):
        place = f"{key_path('tables', table.name)}.not_null[{i}]"
        if fold(column) in unit and (nobody := inspector.count_ownerless(table.name)):
            text = f"{number_of(nobody, 'row')} have no unit: leave it out, answers then say that none counts"
            report.add("wrong", place, text)
            continue
        found = f"{column} is NULL in {number_of(number, 'row')} that have a unit"
        text = f"{found}: leave it out, NULL is then a group"
        report.conclude(number, place, text, f"{column} has no NULL")


def _verify_not_negative(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report whether columns have no value below 0, and which others have none."""
    right = []
    for i, column in enumerate(table.not_negative):
        place = f"{key_path('tables', table.name)}.not_negative[{i}]"
        number = inspector.count_negative(table.name, column)
        text = f"{column} is below 0 in {number_of(number, 'row')}: leave it out"
        report.conclude(number, place, text, f"{column} is never below 0")
        right += [column] * (not number)
    if table.unit is None:
        return
    known = {fold(each) for each in (*table.not_negative, *table.unit_columns, *table.domain)}
    known |= {fold(column) for fact in table.unique for column in fact}
    amounts = [
        name
        for name, kind in inspector.readers[table.name].columns
        if kind.numeric and (not kind.integer or kind.signed) and fold(name) not in known
    ]
    never = [c for c in amounts if not is_key_name(c) and not inspector.count_negative(table.name, c)]
    if never:
        gain = "if that is so by construction, makes sums several times more accurate"
        text = f"never below 0: not_negative = {json.dumps([*right, *never])}, {gain}"
        report.add("ok", table.place("not_negative"), text)


def _verify_complete(report: Report, inspector: ExactQueries, table: Table, column: str) -> None:
    place = table.place("domain", column)
    _, rows, nulls = inspector.count_outside(table.name, column)
    beyond, null = number_of(rows, "row"), number_of(nulls, "row")
    text = f"is not complete: {beyond} outside, {null} with NULL: leave that out"
    report.conclude(rows or nulls, place, text, "is complete")


def _verify_domain(report: Report, inspector: ExactQueries, table: Table, column: str, total: int) -> None:
    place = table.place("domain", column)
    values, rows, _ = inspector.count_outside(table.name, column)
    if values:
        listed = inspector.list_outside_values(table.name, column)
        shown = ", ".join(f"{text!r} ({number_of(n, 'row')})" for text, n in listed)
        more = ", .." if values > len(listed) else ""
        text = (
            f"{number_of(rows, 'row')} outside of the domain ({rows / max(total, 1):.2%}), with "
            f"{number_of(values, 'value')}: {shown}{more}. "
            f"Where {column} is a group key, these rows are in no group, which may be meant"
        )
        report.add("note", place, text)
    else:
        report.add("ok", place, "covers every value")


def verify_rows(report: Report, inspector: ExactQueries, policy: Policy, table: Table) -> None:
    """Report that units have one row each, keys that are not of one unit, and NULLs in keys."""
    if table.public:
        return
    _verify_owned(report, inspector, table)
    parts = policy.unit_parts
    if parts is not None and parts.constant and fold(parts.table) == fold(table.name):
        _verify_constant(report, inspector, table, parts)
    _verify_covers(report, inspector, table)
    _verify_determines(report, inspector, table)
    if isinstance(table.unit, UnitColumn):
        _report_single(report, inspector, policy, table, table.unit.column)
    if table.cut == "NOISE_ONLY":
        text = "intervals of statements over this table do not have what bounds cut, though it may be known"
        report.add("note", table.place("cut"), text)
    vouched = {fold(column) for column in table.not_null}
    keys = [column for column in table.domain if fold(column) not in vouched]
    nulls, rows = inspector.count_nulls(table.name, keys)
    for column in keys:
        if nulls[column]:
            text = f"{nulls[column]:,} of {rows:,} rows are NULL: a group of their own"
            report.add("note", table.place("domain", column), text)


def _verify_owned(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report the values of which each is to belong to one unit, and that belong to several."""
    places = [
        (f"{key_path('tables', table.name)}.owned[{i}]", [(table.name, c)]) for i, c in enumerate(table.owned)
    ]
    places += [
        (table.place("same_unit", c), [(table.name, c), other]) for c, other in table.same_unit.items()
    ]
    for place, columns in places:
        try:
            values, rows = inspector.count_shared_values(columns)
        except UnreadableError:
            continue  # the other table, which is reported as such
        kind = "unit" if table.unit is None else table.unit.kind
        named = " and ".join(f"{name}.{column}" for name, column in columns)
        text = (
            f"{number_of(values, 'value')} of {named} belong to several units of kind {kind} "
            f"({rows:,} rows): joins leave the pairs of different ones out"
        )
        report.conclude(values, place, text, f"each value of {named} belongs to one {kind}")


def _verify_constant(report: Report, inspector: ExactQueries, table: Table, parts: UnitParts) -> None:
    """Report the units whose rows have several dates, by which they would be in several parts."""
    varying = inspector.count_varying(table.name, parts.column)
    text = f"{number_of(varying, parts.kind)} of {table.name} have several values of {parts.column}"
    fine = f"each {parts.kind} has one {parts.column}"
    report.conclude(varying, parts.place("constant"), text, fine)


def _verify_covers(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report the days that rows are to begin and end with, where there are none or others beyond."""
    for column, days in table.covers.items() if not isinstance(table.unit, UnitRow) else ():
        place = table.place("covers", column)
        first, last, beyond = inspector.count_at_days(table.name, column, *(day.isoformat() for day in days))
        missing = [str(day) for day, rows in zip(days, (first, last), strict=True) if not rows]
        said = [f"no row on {' and '.join(missing)}"] if missing else []
        said += [f"{number_of(beyond, 'row')} beyond"] if beyond else []
        fine = "there are rows on both days, and none beyond"
        report.conclude(said, place, f"is not so: {', '.join(said)}", fine)


def _verify_determines(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report the values of which rows have several values of a column that they are to determine."""
    for column, others in table.determines.items():
        for other in others:
            varying = inspector.count_undetermined(table.name, column, other)
            text = f"{number_of(varying, 'value')} of {column} have several values of {other}"
            place, fine = table.place("determines", column), f"each {column} has one {other}"
            report.conclude(varying, place, f"{text}: groups are of both", fine)


def _report_single(report: Report, inspector: ExactQueries, policy: Policy, table: Table, unit: str) -> None:
    """Report that no unit has two rows, which a policy may say and rows alone do not promise."""
    if table.is_key(unit):
        return
    rows, units = inspector.count_rows_and_units(table.name)
    if rows < 2 or rows != units:
        return
    most = policy.most(table, "rows_per_unit")
    gain = "counts of rows need no bound" if most is None else f"noise {most:,} times less"
    text = (
        f"{unit} names each of {rows:,} rows once: if that is so by construction, "
        f'write unique = [["{unit}"]]: {gain}'
    )
    report.add("note", table.place("unit"), text)


_ADVICE = "choose bounds without the rows: one that is copied from this share is a fact about the data"


def verify_bounds(
    report: Report, inspector: ExactQueries, policy: Policy, table: Table, kept: LedgerLadders
) -> None:
    """Report the shares of a table's rows, groups and values that are beyond its bounds, and its ladders."""
    for column in table.bounds:
        _report_cut(report, inspector, table, column)
    if table.public or isinstance(table.unit, UnitRow):
        return
    _report_ladders(report, policy, table, kept)
    most, place = policy.most(table, "rows_per_unit"), _find_place(table, "rows_per_unit")
    if most is not None:
        _report_rows(report, inspector, policy, table, most, place, kept)
    most, place = policy.most(table, "groups"), _find_place(table, "groups")
    if most is not None:
        for column in table.domain:
            _report_groups(report, inspector, policy, table, most, place, column)


def _find_place(table: Table, name: str) -> str:
    """Return the key of the policy that has a bound of a table."""
    return key_path("defaults", name) if getattr(table, name) is None else table.place(name)


def _report_groups(
    report: Report, inspector: ExactQueries, policy: Policy, table: Table, most: int, place: str, column: str
) -> None:
    beyond, whole = inspector.count_beyond(table.name, most, column)
    share = f"{beyond / max(whole, 1):.2%} of the rows of {table.name}, grouped by {column}"
    text = f"{most:,} leaves out {share}, where groups are cut: {_suggest_instead(policy, 'groups')}"
    report.conclude(beyond, place, text, f"no unit of {table.name} is cut by {column}", "note")


def _suggest_instead(policy: Policy, name: str) -> str:
    """Return what to write in place of a constant that cuts."""
    return f'write {name} = "AUTO"' if policy.defaults.auto_bounds else _ADVICE


def _report_rows(
    report: Report,
    inspector: ExactQueries,
    policy: Policy,
    table: Table,
    most: int,
    place: str,
    kept: LedgerLadders,
) -> None:
    beyond, whole = inspector.count_beyond(table.name, most, None)
    if not beyond:
        report.add("ok", place, f"no unit of {table.name} is cut")
        return
    above, units = inspector.count_units_beyond(table.name, most)
    text = (
        f"{most:,} cuts {beyond / whole:.2%} of the rows of {table.name}, of {above / units:.2%} of its units"
    )
    text += f": {_suggest_instead(policy, 'rows_per_unit')}"
    if kept.find(table.name, ROWS) is not None:
        text += "; statements over the whole table use the kept ladder already"
    else:
        text += f", or {_offer_ladder(policy, table.name)} for statements over the whole table"
    report.add("note", place, text)


def _report_ladders(report: Report, policy: Policy, table: Table, kept: LedgerLadders) -> None:
    """Report which statements use kept ladders, and which of these are of other data than those now."""
    measures, place = kept.of(table.name), table.place("rows_per_unit")
    for measure in measures:
        found = kept.find(table.name, measure)
        name = name_of(table.name, measure)
        if found is None:
            text = f"the kept ladder of {name} is of other units than the policy declares now: it is not used"
            report.add("note", place, text)
            continue
        what = "counts of rows" if measure == ROWS else f"SUM({measure.removeprefix(total_of(''))})"
        if columns := columns_of(measure):
            what = f"groups by {', '.join(columns)}"
        text = f"{what} over the whole table: by the kept ladder of {found.ladder.made:%d %B %Y}"
        if found.current:
            report.add("ok", place, text)
        else:
            known = "what its bound leaves out of these data is not known"
            report.add("note", place, f"{text}; {known}: {_offer_ladder(policy, name)} measures it anew")
    if (
        policy.most(table, "rows_per_unit") is None
        and ROWS not in measures
        and policy.defaults.auto_bounds
        and not has_one_row(policy, table)
    ):
        text = "no bound on its rows is written, so each statement finds one privately"
        report.add("ok", place, f"{text}; {_offer_ladder(policy, table.name)} finds it once")


def _offer_ladder(policy: Policy, name: str) -> str:
    """Return the command that measures a ladder, with its price."""
    price, whole = shown(default_price(policy), up=True), shown(policy.budget.epsilon, up=False)
    return f"dpsql bounds {name} (epsilon {price} of {whole})"


def _report_cut(report: Report, inspector: ExactQueries, table: Table, column: str) -> None:
    beyond, whole = inspector.count_cut(table.name, column)
    text = f"{beyond / max(whole, 1):.2%} of the values are cut: {_ADVICE}"
    report.conclude(beyond, table.place("bounds", column), text, "no value is cut", "note")
