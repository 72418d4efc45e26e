"""What the owner is told of stored values: what a declared type does not hold, and texts that are numbers."""

from __future__ import annotations

import re

from dpsql.engines.duckdb.duckdb_owner import Inspector
from dpsql.owner.findings import Report, number_of
from dpsql.policy import CsvFormat, CsvSource, Policy, Table, show_length
from dpsql.policy.names import key_path
from dpsql.types import TIMESTAMP, TIMESTAMPTZ, SqlType


def verify_values(report: Report, inspector: Inspector, table: Table, lost: dict[str, int]) -> None:
    """Report values that are read as NULL, rounded or invalid, and columns that could have another type."""
    for column, kind in inspector.readers[table.name].columns:
        if lost[column]:
            shown = ", ".join(
                f"{_restore_text(table, kind, text)!r} in row {row:,}"
                for row, text in inspector.list_lost_values(table.name, column)
            )
            text = f"{number_of(lost[column], 'value')} not readable as {kind}, so read as NULL: {shown}"
            text += _suggest_format(table, kind, shown)
            report.add("wrong", table.place("columns", column), text)
    kinds = dict(inspector.readers[table.name].columns)
    for column, (number, first) in inspector.find_rounded_values(table.name).items():
        text = f"{number_of(number, 'value')} rounded to {kinds[column]} when read, as {first!r}"
        report.add("note", table.place("columns", column), text)
    for column, wrong in inspector.count_invalid_timestamps(table.name).items():
        if wrong:
            text = (
                f"{number_of(wrong, 'value')} no TIMESTAMP (before 290309 BC): correct it, or declare VARCHAR"
            )
            report.add("wrong", table.place("columns", column), text)
    _report_types(report, inspector, table)


def _report_types(report: Report, inspector: Inspector, table: Table) -> None:
    """Report the columns of texts in a CSV file of which all values are numbers, dates or the like."""
    found = inspector.find_types_of_text(table.name)
    if found:
        lines = ", ".join(f'{key_path(name)} = "{kind}"' for name, kind in found.items())
        text = "columns of texts hold numbers, dates or the like alone: if that is so by construction, write"
        report.add("note", table.place("columns"), f"{text} {lines}")


def verify_zones(report: Report, inspector: Inspector, table: Table) -> None:
    """Report texts with an offset that would be dropped, and times of which the zone is to be known."""
    reader = inspector.readers[table.name]
    for column, (dropped, naive, total) in inspector.count_offsets(table.name).items():
        place = table.place("columns", column)
        kind = next(kind for name, kind in reader.columns if name == column)
        if dropped:
            every, carry = number_of(total, "text"), "carries" if dropped == 1 else "carry"
            have = f"{dropped:,} of {every} {carry} an offset"
            what = "leave out its zone" if column in table.zone else "declare it TIMESTAMPTZ"
            report.add(
                "wrong", place, f"{have}, which a {TIMESTAMP if kind == TIMESTAMPTZ else kind} drops: {what}"
            )
        if naive:
            report.add(
                "note", place, f"{naive:,} of {number_of(total, 'text')} without an offset: read in UTC"
            )
    for column in reader.zoned:
        text = "its values are instants (TIMESTAMPTZ), which are read as times of UTC: declare it TIMESTAMPTZ"
        report.add("note", table.place("columns", column), text)
    for column, zone in table.zone.items():
        doubled, skipped = inspector.count_changed_hours(table.name, column)
        if doubled or skipped:
            twice, never = number_of(doubled, "row"), number_of(skipped, "row")
            text = (
                f"of {twice} the hour occurs twice in {zone} (the later one is taken), of "
                f"{never} it is skipped (the offset before it is taken)"
            )
            report.add("note", table.place("zone", column), text)


def _restore_text(table: Table, kind: SqlType, text: str) -> str:
    """Return a value of a CSV file as it is written there: what does not convert has been changed."""
    form = table.source.format if isinstance(table.source, CsvSource) else CsvFormat()
    if kind.numeric and not kind.integer and form.decimal == "," and not form.thousands:
        return text.translate(str.maketrans("?.", ".,"))
    return text.removeprefix("?") if form.date or form.thousands else text


def _suggest_format(table: Table, kind: SqlType, shown: str) -> str:
    """Return what says that a CSV file's values are written otherwise; empty if they seem not to be."""
    form = table.source.format if isinstance(table.source, CsvSource) else None
    dates = re.search(r"'\d{1,4}[./ -]\d{1,2}[./ -]\d{1,4}", shown)
    if form is not None and kind.name in ("DATE", "TIMESTAMP") and not form.date and dates:
        return f'; [{table.place("csv")}] date = "DD.MM.YYYY" reads 31.12.2024'
    numbers = re.search(r"'-?[\d.]*,\d", shown)
    if form is not None and kind.numeric and form.decimal == "." and not form.thousands and numbers:
        return f'; [{table.place("csv")}] decimal = "," and thousands = "." read 1.234,50'
    grouped = re.search(r"'-?\d{1,3}(\.\d{3})+\b", shown)
    if form is not None and kind.numeric and form.decimal == "," and not form.thousands and grouped:
        return f'; [{table.place("csv")}] thousands = "." reads 1.234,50'
    return ""


def verify_lengths(report: Report, inspector: Inspector, policy: Policy, table: Table) -> bool:
    """Report values longer than the limit; return whether there is none."""
    limit = show_length(policy.longest_value)
    facts = {column.lower() for fact in table.unique for column in fact}
    found = {column: longer for column, longer in inspector.count_over_limit(table.name).items() if longer}
    for column, longer in found.items():
        what = "their rows are not read" if column.lower() in facts else "read as NULL"
        text = f"{number_of(longer, 'value')} longer than {limit} ([engine] longest_value): {what}"
        report.add("note", table.place("columns", column), text)
    return not found
