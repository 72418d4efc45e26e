"""The results of SHOW and DESCRIBE, and the columns of every answer. Nothing is run, and nothing is charged.

No catalog has the columns of the policy's views: they are those of the query that a view stands for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.analysis import (
    Catalog,
    is_private,
    place_columns,
    put_domains,
    put_views,
    quote,
    write_engine_sql,
    write_public_sql,
)
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.composed_statements import layout_of
from dpsql.composition.explain import COLUMNS as CERTIFICATE
from dpsql.composition.kinds import BlockKind, Kinds
from dpsql.composition.planned_count import columns_of
from dpsql.composition.prepared import (
    Explained,
    Prepared,
    PreparedCheck,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedPublic,
    PreparedQuestion,
)
from dpsql.composition.release_words import add_exact_facts, round_down, round_up
from dpsql.composition.statement_parts import parts_of
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import Fix, InternalError
from dpsql.language import Describe, OpenChecks, Options, Query, Show, StreamCommand, name_columns, parse
from dpsql.ledger import LIKE, Budget, Ledger, list_fullest, rows_of, write_parts
from dpsql.policy import Policy, Table, UnitColumn, View, describe_protected, fold, path_of
from dpsql.release import places_of

if TYPE_CHECKING:
    from dpsql.analysis import Output, Plan
    from dpsql.kernel.ledger.lasting_streams import StoredStream
    from dpsql.places import Places
    from dpsql.release import Release


def empty_table() -> pa.Table:
    """Return a result without columns."""
    return pa.table({})


def show_facts(statement: Show, policy: Policy, ledger: Ledger, analyst: str) -> pa.Table:
    """Return the result of SHOW."""
    if statement.what == "budget":
        budget = ledger.budget(analyst)
        most = policy.budget.max_epsilon_per_query
        cap = {"max_epsilon_per_query": None if most is None else str(most)}
        return add_exact_facts(_budget_table(budget, policy), "budget", {**budget.facts, **cap})
    if statement.what == "parts":
        return _parts_table(statement, policy, ledger, analyst)
    if statement.what == "tables":
        tables = list(policy.tables.values())
        units = [_unit_column(policy, table) for table in tables]
        views = [view.name for view in policy.views.values()]
        return pa.table(
            {
                "table": [*(t.name for t in tables), *views],
                "unit": [*units, *("view" for _ in views)],
                "protects": pa.array(
                    [*(describe_protected(policy.tables, t) for t in tables), *(None for _ in views)],
                    pa.string(),
                ),
            }
        )
    found = ledger.releases(analyst)
    return pa.table(
        {
            "number": pa.array([r.number for r in found], pa.int64()),
            "when": pa.array([r.when.isoformat(" ", "seconds") for r in found], pa.string()),
            "selection": pa.array([r.selection for r in found], pa.string()),
            "epsilon": pa.array(
                [None if r.charge.epsilon is None else round_up(r.charge.epsilon) for r in found], pa.string()
            ),
            "part": pa.array(
                [f"{r.place} of {r.places}" if r.places > 1 else None for r in found], pa.string()
            ),
            "statement": pa.array([r.statement for r in found], pa.string()),
        }
    )


_MOST_LINES, _NEWEST, _FULLEST, _YEARS = 40, 20, 10, 5
"""Of more lines of parts the newest and the fullest are shown, and how many; of years the last."""


def _parts_table(statement: Show, policy: Policy, ledger: Ledger, analyst: str) -> pa.Table:
    """Return the budget of each part of units, and what all statements cost in sequence."""
    parts = ledger.parts
    if parts is None:
        raise statement.source.refuse(
            "the policy divides no units into parts", None, "SHOW PRIVACY BUDGET shows the whole budget"
        )
    like = policy.budget.default_epsilon or LIKE
    found, left_out = ledger.budget_by_parts(analyst), 0
    if len(found) > _MOST_LINES and not statement.every:
        newest = {id(each) for each in found[-_NEWEST:]}
        fullest = {id(each) for each in list_fullest(found, _FULLEST)}
        kept = [each for each in found if id(each) in newest | fullest]
        found, left_out = kept, len(found) - len(kept)
    rows = [
        (
            each.words,
            round_up(each.budget.spent.epsilon),
            round_down(each.budget.remaining.epsilon),
            f"{each.budget.more(like)} of {round_up(like)}",
        )
        for each in found
    ]
    if left_out:
        rows.append((f"{left_out} more lines: SHOW PRIVACY BUDGET BY PARTS ALL", "", "", ""))
    borne = ledger.borne_by_person()
    rows += [
        (
            f"one {parts.kind}, {each.years}",
            "no epsilon" if each.spent is None else round_up(each.spent),
            "" if each.left is None else round_down(each.left),
            "",
        )
        for each in (borne if statement.every else borne[-_YEARS:])
    ]
    total = ledger.total_in_sequence(analyst)
    rows.append(("all statements in sequence", "no epsilon" if total is None else round_up(total), "", ""))
    table = pa.table(
        {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(_SHOW["parts"])}
    )
    return add_exact_facts(table, "parts", write_parts(found)) if statement.every else table


def _unit_column(policy: Policy, table: Table) -> str:
    """Name the column of a table's unit: of a path, the one in its last table."""
    unit = (table, *path_of(policy.tables, table))[-1].unit
    if isinstance(unit, UnitColumn):
        return unit.column
    return "public" if unit is None else "ROW"


def _budget_table(budget: Budget, policy: Policy) -> pa.Table:
    rows: Sequence[tuple[str, ...]]
    if budget.accounting == "pure":
        amounts = (budget.total, budget.spent, budget.remaining)
        epsilons = [
            round_down(amounts[0].epsilon),
            round_up(amounts[1].epsilon),
            round_down(amounts[2].epsilon),
        ]
        rows = [("epsilon", *epsilons), ("delta", *(f"{float(each.delta):g}" for each in amounts))]
    else:
        rows = rows_of(budget, policy.budget.default_epsilon)
    if budget.renewal is not None:
        rows = [*rows, *budget.renewal.rows]
    names = ("scope", "total", "spent", "remaining")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def describe_table(statement: Describe, policy: Policy, catalog: Catalog) -> pa.Table:
    """Return the result of DESCRIBE: columns, types, and which columns have a public domain."""
    table = policy.table(statement.table) if statement.table.isascii() else None
    if table is None:
        said, at = f"there is no table {statement.table[:60]}", statement.at
        close = difflib.get_close_matches(
            statement.table.lower(), [t.name for t in policy.tables.values()], 1
        )
        hint = f"did you mean {close[0]}?" if close else "SHOW TABLES lists them"
        fix = Fix(close[0], at, at + len(statement.table)) if close else None
        raise statement.source.refuse(said, at, hint, fix, unknown="table")
    domains = {fold(name) for name in table.domain}
    columns = catalog.columns(table.name)
    return pa.table(
        {
            "column": [name for name, _ in columns],
            "type": [str(kind).split("(")[0] if kind.name == "ENUM" else str(kind) for _, kind in columns],
            "domain": [
                "public" if table.public else "declared" if fold(n) in domains else "" for n, _ in columns
            ],
        }
    )


def describe_view(view: View, policy: Policy, database: SchemaDatabase, defaults: Options) -> pa.Table:
    """Return the result of DESCRIBE for a view: its columns, their types, and which have public values.

    Nothing is charged: where the view releases something, its columns are those that a release would have.
    """
    query = put_views(parse(f"SELECT * FROM main.{quote(view.name)}"), policy)
    assert isinstance(query, Query)  # noqa: S101  it was written above
    some = replace(defaults, epsilon=defaults.epsilon or Fraction(1))
    found = list(_columns(query, policy, database, some))
    return pa.table(
        {what: [cells[place] for cells in found] for place, what in enumerate(("column", "type", "domain"))}
    )


def _columns(
    query: Query, policy: Policy, database: SchemaDatabase, defaults: Options
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and domain of each column of a query."""
    if not is_private(query, policy):
        for name, kind in database.describe_over({}, write_public_sql(query, policy, database)):
            yield name, kind, "public"
        return
    provenance = Provenance(query.source, policy, database)
    if Kinds.of(query, provenance).of_select[id(query.tree)] is BlockKind.OWNED:
        relation = provenance.make_compiler().query(query.tree, (), 1)
        for column in relation.columns:
            yield column.name, str(column.type), "declared" if column.domain is not None else ""
        return
    analysed = AnalysedBlocks(policy, database, defaults)
    parts = parts_of(query, analysed)
    plans = [analysed.plan(part.query) for part in parts.releases]
    if parts.outer is None:
        for name, released in columns_of(plans[0]):
            yield name, str(released), "released"
        return
    name_columns(parts.outer)
    put_domains(parts.outer, query.source, policy, database)
    types = {p.name: columns_of(plan) for p, plan in zip(parts.releases, plans, strict=True)}
    for name, kind in database.describe_over(types, write_engine_sql(parts.outer)):
        yield name, kind, "released"


_EXPLAIN = ("property", "value")
_SHOW = {
    "budget": ("scope", "total", "spent", "remaining"),
    "parts": ("part", "spent", "left", "more"),
    "tables": ("table", "unit", "protects"),
    "releases": ("number", "when", "selection", "epsilon", "part", "statement"),
    "release": ("release",),
    "stream": _EXPLAIN,
}
_DESCRIBE = ("column", "type", "domain")
"""The columns of commands; all are texts but the number of a release."""


STREAMS = pa.schema(
    [
        *((name, pa.string()) for name in ("stream", "state")),
        *((name, pa.int64()) for name in ("misses", "left")),
        *((name, pa.string()) for name in ("epsilon", "charged")),
    ]
)
"""The columns of SHOW STREAMS, and of what opens and closes a stream."""


def show_streams(streams: Sequence[StoredStream]) -> pa.Table:
    """Return what SHOW STREAMS has: what is left of each stream, and what it has cost until now."""
    rows = [
        (
            *(each.terms.name, each.said, each.terms.misses, each.left),
            *(round_up(each.terms.charge.epsilon), round_up(each.charged)),
        )
        for each in streams
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(STREAMS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, STREAMS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=STREAMS)


def _of_check(prepared: PreparedCheck) -> pa.Schema:
    plan, database = prepared.counting.plan, prepared.counting.engines.schema_database
    kinds = {each.name: plan.key_types[each.of] for each in plan.outputs if each.kind == "key"}
    keys = [(name, database.arrow_type(str(kinds[name]))) for name in prepared.keys]
    rest = ("expected", "low", "high", "gap")
    number = (prepared.check.column, pa.float64())
    return pa.schema([*keys, number, ("checked", pa.string()), *((name, pa.float64()) for name in rest)])


def schema_of(prepared: Prepared, *, intervals: bool = False) -> pa.Schema:
    """Return the schema of a statement's answer, with the ends of intervals if they are shown."""
    match prepared:
        case PreparedPrivate():
            plain = _of_plan(prepared.plan, prepared.engines.schema_database)
        case PreparedComposed():
            types = {relation.name: relation.columns for relation in prepared.relations}
            database = prepared.engines.schema_database
            plain = database.schema_over(types, prepared.outer)
        case PreparedPublic():
            return prepared.engines.schema_database.schema(prepared.sql, prepared.text)
        case PreparedCommand():
            return _of_command(prepared)
    for name in ends(prepared) if intervals else ():
        plain = plain.append(pa.field(name, pa.float64()))
    return plain


def ends(prepared: PreparedPrivate | PreparedComposed) -> tuple[str, ...]:
    """Return the names of the columns that show the ends of a statement's intervals."""
    if isinstance(prepared, PreparedComposed):
        shown, (names, places) = len(prepared.columns), layout_of(prepared)
    else:
        shown, (names, places) = len(prepared.plan.outputs), place_columns(prepared.plan.outputs)
    return tuple(names[place] for place in _added(places, shown))


def with_ends(release: Release, names: tuple[str, ...]) -> pa.Table:
    """Return the rows of a release with the ends of its intervals, under these names."""
    rows = release.rows
    for name, place in zip(names, _added(places_of(release), rows.num_columns), strict=True):
        rows = rows.append_column(name, release.table.column(place))
    return rows


def _added(places: Places, shown: int) -> list[int]:
    """Return the places of the ends of intervals that are not among the rows, which have so many columns."""
    ends = (end for number in places.numbers for end in (number.low, number.high))
    return [end for end in ends if end is not None and end >= shown]


def _of_plan(plan: Plan, database: SchemaDatabase) -> pa.Schema:
    keys = plan.key_types
    return pa.schema(
        (
            output.name,
            database.arrow_type(str(keys[output.of]))
            if output.kind == "key"
            else _of_number(output, database),
        )
        for output in plan.outputs
    )


def _of_number(output: Output, database: SchemaDatabase) -> pa.DataType:
    """Return the SQL type in which a released number is shown."""
    if output.quantile is not None:
        kind = output.quantile.type
        return pa.int64() if kind.integer else database.arrow_type(str(kind))
    return pa.int64() if output.kind == "rank" else pa.float64()


def _of_command(prepared: PreparedCommand) -> pa.Schema:
    match prepared.command:
        case Explained(form="JSON"):
            names: tuple[str, ...] = ("explain",)
        case Explained(form="CERTIFICATE"):
            names = CERTIFICATE
        case Explained():
            names = _EXPLAIN
        case OpenChecks() | StreamCommand() | Show(what="streams"):
            return STREAMS
        case PreparedCheck() as check:
            return _of_check(check)
        case PreparedQuestion(counting=counting):
            return _of_plan(counting.plan, counting.engines.schema_database)
        case Show() as show:
            names = _SHOW[show.what]
        case Describe():
            names = _DESCRIBE
        case _:
            raise InternalError("a setting has no columns")
    return pa.schema((name, pa.int64() if name == "number" else pa.string()) for name in names)
