"""Random sums, averages and variances over random rows: exact numbers with and without each unit.

The numbers of every form are compared with whole numbers that Python computes from the rows, and with the
claim: removing a unit moves each number within its bounds, all numbers that share a bound by no more than it
together, and groups in which the unit has no row not at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa

from dpsql.analysis import Plan, analyse, complete_options
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.language import Options, Query, parse
from dpsql.policy import BudgetPolicy, ParquetSource, Policy, Table, UnitColumn, UnitRow
from dpsql.policy.table_parts import ValuesDomain
from dpsql.types import column_type
from fuzz.exact import Row, numbers_of

__all__ = ["FORMS", "Sums", "Tally"]

TYPES = {
    "i": "BIGINT",
    "n": "SMALLINT",
    "u": "UBIGINT",
    "d": "DECIMAL(9,2)",
    "e": "DECIMAL(18,4)",
    "f": "DOUBLE",
}
VALUES = {
    "i": [
        "0",
        "1",
        "2",
        "5",
        "9",
        "-3",
        "9223372036854775807",
        "-9223372036854775808",
        "4611686018427387904",
    ],
    "n": ["0", "1", "3", "7", "-2", "10", "32767", "-32768"],
    "u": ["0", "1", "4", "10", "18446744073709551615"],
    "d": ["0", "0.01", "1.50", "3.25", "-2.75", "9999999.99", "-9999999.99"],
    "e": ["0", "0.0001", "1.5", "2.0001", "-3.3333", "99999999999999.9999", "-99999999999999.9999"],
    "f": [
        "0",
        "0.1",
        "0.3",
        "1.5",
        "2.25",
        "-0.7",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e308",
        "5e-324",
    ],
}
BOUNDS = ((0, 5), (0, 1), (1, 4), (-3, 7), (-5, -1), ("0.1", "0.3"), (2, 9_000_000_000), (-(2**53), 2**53))
_MEASURES = ("SUM per group", "SUM", "SUM AUTO", "AVG per group", "AVG", "VAR_POP")
FORMS = (*_MEASURES, "COUNT", "COUNT(*)", "all together")
GROUPS = ("a", "b", "c")
UNITS = 6
COPIES = range(UNITS + 1)
"""Of each database: the whole, and without each unit. They are counted at once: units and groups differ."""

Numbers = dict[str | None, tuple[int, ...]]


@dataclass(frozen=True)
class Asked:
    """A number of a statement: its form, its column, and whether only rows with a flag count."""

    form: str
    column: str
    flagged: bool


@dataclass(frozen=True)
class Statement:
    """A compiled statement and what it asks for."""

    text: str
    table: str
    plan: Plan
    asked: tuple[Asked, ...]


@dataclass
class Tally:
    """Figures by form: removals, and the largest part of its bound that a removal moved."""

    removals: Counter[str] = field(default_factory=Counter)
    reached: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join(f"{f}: {self.removals[f]} removals, {float(self.reached[f]):.6f}" for f in FORMS)


class Sums:
    """A policy with three kinds of units, and two engines over the same random rows."""

    def __init__(self, seed: int, databases: int = 4) -> None:
        self.rng = Random(seed)
        self.databases = range(databases)
        columns = {"user_id": "BIGINT", "g": "VARCHAR", **TYPES, "flag": "BOOLEAN"}
        many, by_row = UnitColumn("user_id", "person"), UnitRow("row")
        units: dict[str, tuple[UnitColumn | UnitRow, tuple[tuple[str, ...], ...]]] = {
            "many": (many, ()),
            "one": (many, (("user_id",),)),
            "rows": (by_row, ()),
        }
        groups = tuple(f"{g}{d}-{c}" for d in self.databases for c in COPIES for g in GROUPS)
        tables = {
            name: Table(
                name=name,
                source=ParquetSource(Path(f"{name}.parquet")),
                columns={c: column_type(t) for c, t in columns.items()},
                unit=unit,
                unique=unique,
                domain={"g": ValuesDomain(groups)},
            )
            for name, (unit, unique) in units.items()
        }
        self.policy = Policy(budget=BudgetPolicy(epsilon=Fraction(10)), tables=tables)
        readers = {n: Reader(t, tuple((t.columns or {}).items()), "", ()) for n, t in tables.items()}
        domains = Domains(self.policy, readers)
        self.shell = SchemaDatabase(readers, {}, domains)
        self.engines = [_engine(threads, columns, domains) for threads in (1, 2)]
        self.rows: dict[str, list[list[list[Row]]]] = {}
        """By table and database, the rows of each copy."""
        self.tally = Tally()

    def close(self) -> None:
        """Let go of the engines."""
        for engine in self.engines:
            engine.close()
        self.shell.close()

    def statement(self, forms: Sequence[str] = FORMS) -> Statement:
        """Draw a statement with several numbers over one table."""
        rng = self.rng
        table = rng.choice(("many", "many", "one", "rows"))
        asked, items = list[Asked](), list[str]()
        # Of rows that are units by themselves, sums are not capped.
        known = [f for f in forms if (f, table) != ("SUM AUTO", "rows")]
        for form in rng.sample(known, min(3, len(known))):
            column, flagged = rng.choice([*TYPES]), rng.random() < 0.3
            low, high = rng.choice(BOUNDS)
            for call in _calls(form, column, f"({low}, {high})"):
                items.append(call + " FILTER (WHERE flag)" * flagged)
                asked.append(Asked(form, column, flagged))
        most = rng.choice((1, 2, 3, 8, 40))
        option = f"OPTIONS (max_rows_contributed = {most}) " if table == "many" else ""
        by = rng.random() < 0.9
        listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        text = (
            f"SELECT WITH DIFFERENTIAL_PRIVACY {option}{'g, ' * by}{listed} FROM {table}" + " GROUP BY g" * by
        )
        query, given = parse(text), Options(epsilon=Fraction(1))
        assert isinstance(query, Query)
        plan = analyse(query, self.policy, self.shell, complete_options(query.options, given))
        return Statement(text, table, plan, tuple(asked))

    def fill(self) -> None:
        """Draw new databases, and copies of each in which one unit, or one row, is gone."""
        for table in ("many", "one", "rows"):
            self.rows[table] = [self._copies(table, d) for d in self.databases]
            for engine in self.engines:
                engine.execute(f"DELETE FROM all_{table}")
                every = [copy for copies in self.rows[table] for copy in copies]
                cells = [(number, row) for number, copy in enumerate(every) for row in copy]
                self.rng.shuffle(cells)
                _insert(engine, table, cells)

    def _copies(self, table: str, database: int) -> list[list[Row]]:
        rng, base = self.rng, self._rows(table)
        copies = []
        for copy in COPIES:
            there = [
                r for i, r in enumerate(base) if not copy or (i + 1 if table == "rows" else r.unit) != copy
            ]
            first = (database * len(COPIES) + copy) * 100
            copies.append(
                [
                    replace(
                        r,
                        unit=None if r.unit is None else first + r.unit,
                        group=f"{r.group}{database}-{copy}" if r.group in GROUPS else r.group,
                    )
                    for r in rng.sample(there, len(there))
                ]
            )
        return copies

    def _rows(self, table: str) -> list[Row]:
        """Draw rows: units with few, one with more than all others, rows of nobody."""
        rng = self.rng
        units = [*range(1, UNITS + 1), None]
        count = 0 if rng.random() < 0.03 else rng.randint(2, 14)
        chosen = [rng.choice(units) for _ in range(count)]
        if rng.random() < 0.3:
            chosen += [1] * rng.choice((3, 8, 40, 120))
        if table == "one":
            chosen = [*{u: u for u in chosen if u is not None}, *(u for u in chosen if u is None)]
        # Few different values at times: many rows at a bound, where rounding would show.
        common = {c: rng.sample(v, rng.choice((1, 2, len(v)))) for c, v in VALUES.items()}
        where = rng.sample([*GROUPS, "z", None], rng.choice((1, 3, 5)))
        return [
            Row(
                unit,
                rng.choice(where),
                {c: None if rng.random() < 0.1 else _value(c, rng.choice(v)) for c, v in common.items()},
                rng.choice((True, True, False, None)),
            )
            for unit in chosen
        ]

    def check(self, made: Statement, modelled: int = 1) -> None:
        """Count a statement on all copies of all databases, and compare; some with Python's numbers."""
        copies = self.rows[made.table]
        if not made.plan.key_types:
            alone = [self._counted(made, copy)[None] for copy in COPIES]
            for copy, own in enumerate(alone):
                self._equal(made, copies[0][copy], {None: own})
                self._compare(made, {None: alone[0]}, {None: own}, {None}, removed=copy > 0)
            return
        every = self._counted(made, None)
        for database in self.databases:
            named: list[Numbers] = [{g: every[f"{g}{database}-{c}"] for g in GROUPS} for c in COPIES]
            for copy, numbers in enumerate(named):
                rows = copies[database][copy]
                if database < modelled:
                    self._equal(made, rows, {f"{g}{database}-{copy}": n for g, n in numbers.items()})
                kept, whole = (
                    Counter(r.group and r.group.split("-")[0] for r in some)
                    for some in (rows, copies[database][0])
                )
                touched = {g for g in GROUPS if (whole - kept)[f"{g}{database}"]}
                self._compare(made, named[0], numbers, touched, removed=copy > 0)

    def _counted(self, made: Statement, copy: int | None) -> Numbers:
        plan, found = made.plan, []
        keys, size = len(plan.key_types), len(plan.counts)
        for engine in self.engines:
            engine.execute("UPDATE shown SET shown_copy = ?", [copy])
            listed = engine.execute(plan.compiled.sql).fetchall()
            found.append({r[0] if keys else None: r[keys : keys + size] for r in listed})
        if found[0] != found[1]:
            self.tally.findings.append(f"threads or the order of rows matter: {made.text}")
        return found[0]

    def _equal(self, made: Statement, rows: list[Row], numbers: Numbers) -> None:
        """Compare the numbers of some groups with those that Python computes."""
        plan, of_share = made.plan, dict[object, Asked]()
        pairs = [*zip((o for o in plan.outputs if o.kind == "count"), made.asked, strict=True)]
        for output, asked in sorted(pairs, key=lambda pair: pair[1].form == "COUNT(*)"):
            for place in output.uses or (output.of,):
                # A count of rows may be that of another column's moments.
                group = plan.counts[place].noise_group
                own = asked if group is None else of_share.setdefault(group, asked)
                part, by_row = plan.counts[place].parts[0], made.table == "rows"
                # What counts of a unit depends on its rows in all groups, those of NULL and of no group too.
                groups = [*numbers, *([None] if plan.key_types else []), *(["z"] if plan.outside else [])]
                exact = numbers_of(part, rows, own.column, groups, flagged=own.flagged, by_row=by_row)
                wrong = {g: (n[place], exact[g]) for g, n in numbers.items() if n[place] != exact[g]}
                if wrong:
                    self.tally.findings.append(f"{made.text}: number {place} of {wrong}, of {rows}")

    def _compare(
        self,
        made: Statement,
        whole: Numbers,
        less: Numbers,
        touched: Collection[str | None],
        *,
        removed: bool,
    ) -> None:
        plan = made.plan
        moves = {g: [a - b for a, b in zip(whole[g], less[g], strict=True)] for g in whole}
        shown = [o for o in plan.outputs if o.kind == "count"]
        for output, asked in zip(shown, made.asked, strict=True):
            places = output.uses or (output.of,)
            count = plan.counts[places[0]]
            low, high = count.unit_change
            for group, moved in moves.items():
                inside = all(min(low, 0) <= moved[p] <= max(high, 0) for p in places)
                if not inside or (any(moved) and group not in touched):
                    self.tally.findings.append(
                        f"{made.text}: {group} moves by {moved} of {count.unit_change}"
                    )
            shared = (p for p, other in enumerate(plan.counts) if other.noise_group == count.noise_group)
            same = [*places] if count.noise_group is None else [*shared]
            together = sum(abs(moved[p]) for moved in moves.values() for p in same)
            bound = len(moves) * count.bound if count.l1_over_groups is None else count.l1_over_groups
            if together > bound:
                self.tally.findings.append(f"{made.text}: all numbers move by {together} of {bound}")
            most = max(sum(abs(moved[p]) for p in same) for moved in moves.values())
            part = max(Fraction(together, bound), Fraction(most, count.bound))
            self.tally.reached[asked.form] = max(self.tally.reached[asked.form], part)
        self.tally.removals.update({a.form for a in made.asked} if removed else ())


def _calls(form: str, column: str, bounds: str) -> list[str]:
    row, group = f"contribution_bounds_per_row => {bounds}", f"contribution_bounds_per_group => {bounds}"
    match form:
        case "SUM per group":
            return [f"SUM({column}, {group})"]
        case "AVG per group":
            return [f"AVG({column}, {group})"]
        case "SUM AUTO":
            return [f"SUM({column}, contribution_bounds => AUTO)"]
        case "COUNT":
            return [f"AVG({column}, {row})", f"COUNT({column})"]
        case "COUNT(*)":
            return ["COUNT(*)"]
        case "all together":
            return [f"{name}({column}, {row})" for name in ("SUM", "AVG", "STDDEV")] + ["COUNT(*)"]
    return [f"{form}({column}, {row})"]


def _value(column: str, text: str) -> int | Decimal | float:
    if column == "f":
        return float(text)
    return Decimal(text) if column in "de" else int(text)


def _engine(threads: int, columns: dict[str, str], domains: Domains) -> duckdb.DuckDBPyConnection:
    """Open an engine with views that show all copies of the rows, or the one that is in `shown`."""
    engine = duckdb_settings.connect()
    engine.execute(f"SET threads = {threads}")
    domains.create(engine)
    engine.execute("CREATE TABLE shown AS SELECT NULL::BIGINT AS shown_copy")
    listed = ", ".join(f"{c} {t}" for c, t in columns.items())
    for table in ("many", "one", "rows"):
        engine.execute(f"CREATE TABLE all_{table}(copy BIGINT, {listed})")
        engine.execute(
            f"CREATE VIEW {table} AS SELECT {', '.join(columns)} FROM all_{table}, shown "
            "WHERE COALESCE(shown_copy, copy) = copy"
        )
    return engine


def _insert(engine: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[int, Row]]) -> None:
    types = {"copy": pa.int64(), "user_id": pa.int64(), "g": pa.string()}
    cells: dict[str, list[object]] = {"copy": [c for c, _ in rows], "user_id": [r.unit for _, r in rows]}
    cells["g"] = [r.group for _, r in rows]
    for column in TYPES:
        # Exact values as text; a DOUBLE as the scan of a declared column gives it, with one zero.
        values = [r.values[column] for _, r in rows]
        cells[column] = [v + 0.0 if isinstance(v, float) else v if v is None else str(v) for v in values]
        types[column] = pa.float64() if column == "f" else pa.string()
    cells["flag"], types["flag"] = [r.flag for _, r in rows], pa.bool_()
    made = pa.table({name: pa.array(values, types[name]) for name, values in cells.items()})
    engine.register("incoming", made)
    engine.execute(f"INSERT INTO all_{table} SELECT * FROM incoming")
    engine.unregister("incoming")
