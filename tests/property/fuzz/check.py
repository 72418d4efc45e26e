"""Compile a statement, count it on a database and all its neighbours, and say where the claim fails.

The claim: the candidate groups are the same everywhere; a unit adds to each count what it adds when it is
alone, which is between nothing and the count's bound; and neither threads, nor the optimizer, nor the order
of rows change anything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from time import perf_counter
from typing import Any

import duckdb
import pyarrow as pa

from dpsql.analysis import Plan, analyse, complete_options, put_values
from dpsql.analysis.released.unit_counts import DistinctValues
from dpsql.analysis.released_values import Known, Value, ValueMark, list_marks
from dpsql.composition import parts_of
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.language import AboveThreshold, Options, Query, TopK, TopPerPartition, parse
from fuzz.data import FEW
from fuzz.stage import Stage
from fuzz.statements import Statement
from fuzz.world import World

__all__ = [
    "EXTRA",
    "FILES",
    "Counts",
    "Finding",
    "Group",
    "Tried",
    "compile_releases",
    "compile_statement",
    "counting_sql",
    "counts",
    "moved",
    "plain_values",
    "run_all",
]

ROWS = 3_000_000
"""Pairs of rows of one unit that a join may make, at most: beyond it a giant unit is left out."""

SLOW = 0.1
"""Seconds after which a statement is counted on the first neighbours alone."""

EXTRA = ("shuffled", "nobody", "only", "plain", "twin", "ranged")
"""What a count is compared with beside the removals: rows in another order, of nobody, of one unit alone;
the optimizer off; several threads; an optimizer that looks at minima and maxima, where the engine has it."""

FILES = ("parquet", "csv")
"""The same rows read from files, as a session reads them; CSV cannot hold all of them, but must not raise."""


class Group(str):
    """A group by the text of its keys, which tells values apart that Python takes for equal."""

    __slots__ = ("keys",)
    keys: tuple[str, ...]

    @classmethod
    def of(cls, keys: tuple[object, ...]) -> Group:
        """Return the group of these keys."""
        made = cls(repr(keys))
        made.keys = tuple(map(repr, keys))
        return made


Counts = dict[Group, tuple[int, ...]]

DEFAULTS = Options(epsilon=Fraction(1))

NUMBERS = (0.0, 1.5, -2.0, 3.0, 7.25, 1e300, float("nan"), float("-inf"), None)
"""What stands for numbers of earlier releases."""

_OTHERS: dict[str, tuple[Value, ...]] = {
    "BIGINT": (0, 1, 3, -5, (1 << 63) - 1),
    "VARCHAR": ("a", "DE", "", "é", "'"),
    "DATE": (date(2024, 1, 3), date(2024, 1, 5), date(2024, 2, 29), date.max),
    "TIMESTAMP": (datetime(2024, 1, 4, 22, 30), datetime(2024, 2, 1), datetime.min),
}

CONSTRUCTS = (
    "weighted rows",
    "key of facts",
    "distinct values",
    "partitions of facts",
    "partitions of events",
    "all groups of an unknown domain",
    "join on the parent key",
    "join on a shared key",
    "IN parent key",
    "EXISTS parent key",
    "GROUP BY parent key",
    "repeated parent keys",
    "joint domain",
    "range in WHERE",
    "measures apart",
    "several releases",
)
"""What the figures of a campaign name apart."""


@dataclass(frozen=True)
class Finding:
    """Something that must not be: the claim broken, an engine error, or an exception that is no refusal."""

    what: str
    text: str
    sql: str = ""
    where: str = ""
    plan: Plan | None = None
    """The plan of which the claim is broken."""

    def __str__(self) -> str:
        return f"{self.what} [{self.where}]\n  {self.text}\n  {self.sql[:4000]}"


@dataclass
class Tried:
    """Figures of a campaign."""

    generated: int = 0
    accepted: int = 0
    plain: int = 0
    """Statements counted that the engine runs with statistics."""
    removals: int = 0
    alone: int = 0
    """How often the units' own counts were added up."""
    refused: Counter[str] = field(default_factory=Counter)
    shapes: set[str] = field(default_factory=set)
    saw: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    """Removals by the rules that the statements reach."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def constructs(self) -> str:
        """The statements and removals for each construct."""
        return "; ".join(f"{n}: {self.saw[n]} statements, {self.removed[n]} removals" for n in CONSTRUCTS)

    def __str__(self) -> str:
        share = self.accepted / max(1, self.generated)
        return (
            f"{self.generated} statements, {self.accepted} accepted ({share:.0%}), "
            f"{len(self.shapes)} shapes, "
            f"{self.removals} removals, {self.alone} sums of units alone, {len(self.findings)} findings"
        )


def compile_statement(world: World, made: Statement, tried: Tried) -> Plan | None:
    """Compile a statement that is one release, of which nothing is computed; None for others."""
    found = compile_releases(world, made, tried)
    return found[0][1] if len(found) == 1 and "measures apart" not in found[0][0].saw else None


def compile_releases(
    world: World, made: Statement, tried: Tried, defaults: Options = DEFAULTS
) -> list[tuple[Statement, Plan]]:
    """Compile the releases of a statement, each with the rules that it reaches.

    A refusal is counted, any other exception is a finding.
    """
    tried.generated += 1
    try:
        query = parse(made.text)
        assert isinstance(query, Query)
        parts = parts_of(query, AnalysedBlocks(world.policy, world.schema_database, defaults))
        plans = [
            analyse(
                part.query,
                world.policy,
                world.schema_database,
                complete_options(part.query.options, defaults),
            )
            for part in parts.releases
        ]
        # The claim holds for each number that an earlier release may give: whichever is tried here.
        plans = [
            put_values(
                plan,
                {mark.place: constant_for(mark, len(made.text)) for mark in list_marks(part.query.tree)},
                world.policy,
                world.schema_database,
            )
            if part.values
            else plan
            for part, plan in zip(parts.releases, plans, strict=True)
        ]
    except (QueryRefused, QuerySyntaxError) as refusal:
        tried.refused[str(refusal).split("\n")[0]] += 1
        return []
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        tried.findings.append(
            Finding(f"{type(error).__name__}: {str(error)[:200]}", made.text, "", world.name)
        )
        return []
    wrong = _misdrawn(plans)
    if wrong:
        tried.findings.append(Finding(wrong, made.text, "", world.name))
        return []
    tried.accepted += 1
    whole = {"measures apart"} if parts.outer is not None else set()
    whole |= {"several releases"} if len(plans) > 1 else set()
    whole |= {"released value"} if any(part.values for part in parts.releases) else set()
    found = [(replace(made, saw=made.saw | whole | _reached(plan)), plan) for plan in plans]
    tried.saw.update(set[str]().union(*(each.saw for each, _ in found)))
    return found


def constant_for(mark: ValueMark, seed: int) -> Known:
    """Return what stands for a value of an earlier release, or for a list of them, at times an empty one."""
    values = _OTHERS.get(mark.type.name, NUMBERS)
    place = (seed + mark.place) % (len(values) + 1)
    if mark.listed:
        return tuple(value for value in values[:place] if value is not None)
    return values[place] if place < len(values) else None


def _misdrawn(plans: list[Plan]) -> str:
    """Say whether the releases cost more than the statement's epsilon, or one of them is drawn twice."""
    if sum(plan.epsilon for plan in plans) != DEFAULTS.epsilon:
        return "the releases do not add up to the epsilon of the statement"
    asked = [
        (plan.compiled.sql, repr(plan.selection), *(repr(replace(o, name="")) for o in plan.outputs))
        for plan in plans
    ]
    return "" if len(set(asked)) == len(asked) else "one release is drawn twice"


def _reached(plan: Plan) -> set[str]:
    """Name the rules that a plan shows, whatever the statement was made for."""
    sql, found = plan.compiled.sql, set[str]()
    if plan.key_types and plan.one_group and not plan.owner.row:
        found.add("key of facts")
    if plan.partitions is not None:
        found.add("partitions of facts" if plan.partitions.fact else "partitions of events")
    if plan.domain_size is not None and len(set(re.findall(r"\bd\d+\.", sql))) < len(plan.key_types):
        found.add("joint domain")
    if "the range in WHERE" in plan.domain:
        found.add("range in WHERE")
    return found


def counting_sql(plan: Plan) -> str:
    """Return what is run: on an unknown domain all groups, not the largest alone."""
    if plan.domain_size is not None or not plan.key_types or plan.existence is not None:
        return plan.compiled.sql
    if plan.partitions is not None:
        sql, cut = re.subn(r" WHERE h\.r <= \d+$", "", plan.compiled.sql)
        if cut != 1:
            raise ValueError("the counting SQL of partitions is not what it was")
        return sql
    sql, cut = re.subn(r" ORDER BY g\.n\d+ DESC(, g\.k\d+)+ LIMIT \d+$", "", plan.compiled.sql)
    if cut != 1:
        raise ValueError("the counting SQL of an unknown domain is not what it was")
    return sql


def counts(
    connection: duckdb.DuckDBPyConnection, plan: Plan, parsed: duckdb.Statement | None = None
) -> Counts:
    """Run the counting SQL, which may be parsed already: counts by candidate group."""
    sql = parsed or counting_sql(plan)
    if any(k.name in ("DATE", "TIMESTAMP", "TIME") for k in plan.compiled.keys):
        # In Python infinity and the last day are one.
        table = connection.sql(sql).to_arrow_table()
        rows = list(zip(*(plain_values(column) for column in table.columns), strict=True))
    else:
        rows = connection.execute(sql).fetchall()
    found = by_group(plan, rows)
    if len(found) != len(rows):
        raise ValueError("a candidate group comes twice")
    if any(n is None for row in found.values() for n in row):
        raise ValueError("a count is missing")
    return found


def by_group(plan: Plan, rows: Sequence[tuple[Any, ...]]) -> Counts:
    """Return the counts of rows of the counting SQL by group; of two rows of one group only one is there.

    The rows in no group are a group of their own, whose keys are NULL as those of another may be.
    """
    keys, end = len(plan.compiled.keys), len(plan.compiled.keys) + plan.compiled.counts
    return {
        Group.of(("outside",) if plan.outside and row[end] else tuple(row[:keys])): tuple(row[keys:end])
        for row in rows
    }


def plain_values(column: pa.ChunkedArray) -> list[object]:
    """Return a column as Python values in which no two different ones are alike."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def run_all(
    stage: Stage, plans: list[tuple[Statement, Plan]], tried: Tried, also: Collection[str] = EXTRA
) -> None:
    """Count every plan on the whole and its neighbours, and compare; `also` says with what else."""
    plans = [p for p in plans if _bearable(stage, p[1])]
    numbers = range(len(stage.data.units))
    names = ["whole", *(f"minus{i}" for i in numbers)]
    names += [name for name in ("shuffled", "nobody") if name in also]
    if "only" in also and not stage.data.big:
        names += [f"only{i}" for i in numbers[:FEW]]
    for name in FILES:
        if name in also:
            stage.write(name)
            names.append(name)
    tried.plain += sum(plan.compiled.counts_only for _, plan in plans)
    found: list[dict[str, Counts]] = [{} for _ in plans]
    slow = [False] * len(plans)
    for place, name in enumerate(names):
        stage.enter(name)
        for i, ((made, plan), seen) in enumerate(zip(plans, found, strict=True)):
            if slow[i] and place > FEW:
                continue  # joins of many rows: a few neighbours do
            begun = perf_counter()
            _count(stage, stage.connection, name, made, plan, seen, tried)
            slow[i] |= perf_counter() - begun > SLOW
    stage.enter("whole")
    others = (("plain", stage.plain), ("twin", stage.twin), ("ranged", stage.ranged))
    for name, connection in others:
        # Without the optimizer the joins of a giant unit never end.
        for (made, plan), seen in zip(plans, found, strict=True):
            if name == "ranged" and not plan.compiled.counts_only:
                continue
            if name in also and not (name == "plain" and (stage.data.big or len(stage.data.units) > FEW)):
                _count(stage, connection, name, made, plan, seen, tried)
    for (made, plan), seen in zip(plans, found, strict=True):
        before = tried.removals
        broken = _broken(plan, seen, tried)
        tried.removed.update(dict.fromkeys(made.saw, tried.removals - before))
        if stage.data.repeated:
            tried.removed["repeated parent keys"] += (tried.removals - before) * ("table items" in made.saw)
        for what, name in broken:
            where = f"{stage.world.name} {name}"
            tried.findings.append(Finding(what, made.text, plan.compiled.sql, where, plan))


def _count(
    stage: Stage,
    connection: duckdb.DuckDBPyConnection,
    name: str,
    made: Statement,
    plan: Plan,
    seen: dict[str, Counts],
    tried: Tried,
) -> None:
    try:
        seen[name] = counts(connection, plan, stage.parsed(counting_sql(plan)))
    except (duckdb.Error, ValueError) as error:
        what = f"the engine raised {type(error).__name__}: {str(error)[:300]}"
        where = f"{stage.world.name} {name}"
        tried.findings.append(Finding(what, made.text, plan.compiled.sql, where, plan))


def _bearable(stage: Stage, plan: Plan) -> bool:
    pairs = 1
    for table, rows in stage.data.big.items():
        pairs *= rows ** plan.compiled.sql.count(f'main."{table}"')
    return pairs <= ROWS


def _broken(plan: Plan, seen: dict[str, Counts], tried: Tried) -> list[tuple[str, str]]:
    whole = seen.get("whole")
    if whole is None:
        return []
    for name, other in seen.items():
        if name == "csv":
            continue
        if plan.domain_size is not None and other.keys() != whole.keys():
            return [("the candidate groups differ", name)]
        if name in ("shuffled", "plain", "twin", "ranged", "parquet") and other != whole:
            return [(f"counts differ: {_difference(whole, other)}", name)]
        if name.startswith("minus"):
            tried.removals += 1
            broken = moved(plan, whole, other)
            if broken:
                return [(broken, name)]
    return _sums(plan, seen, tried)


def moved(plan: Plan, whole: Counts, other: Counts) -> str:
    """Compare with a neighbour: each count goes down by at most its bound, in at most so many groups.

    All groups together go down by at most what the plan says of them.
    """
    touched, together = list[Group](), [0] * len(plan.counts)
    for group in whole.keys() | other.keys():
        before, after = (_row(plan, seen, group) for seen in (whole, other))
        touches = False
        for place, (count, old, new) in enumerate(zip(plan.counts, before, after, strict=True)):
            if (old is None or new is None) and plan.existence is None:
                assert isinstance(plan.selection, (TopK, AboveThreshold, TopPerPartition))
                if plan.selection.count != place:
                    continue  # absent from an unknown domain for want of the count that orders
            if (old is None or new is None) and plan.existence not in (None, place):
                # The group exists by this unit alone, so that delta covers it: units that count in other
                # groups have rows there, too, which nobody sees without the unit.
                continue
            n, m = old or 0, new or 0
            touches |= n != m
            together[place] += abs(n - m)
            # Whether a group of undeclared keys exists is tested for a number that a unit moves by one.
            bound = 1 if place == plan.existence else count.bound
            low = 0 if count.monotone else -bound
            if not low <= n - m <= bound:
                return f"group {group} goes from {n} to {m}, bound {bound}"
        touched += [group] * touches
    for place, moves in enumerate(together):
        total = plan.l1_over_groups(place)
        if total is not None and moves > total:
            return f"all groups of count {place} move by {moves}, bound {total}"
    # Noise that relies on a bound, as that of every count by itself, takes it from the plan.
    most = 1 if plan.one_group else plan.groups_per_unit
    if plan.key_types and most is not None and len(touched) > most:
        return f"one unit moves {len(touched)} groups"
    if isinstance(plan.selection, TopPerPartition) and plan.partitions is not None:
        touched_in = {tuple(group.keys[i] for i in plan.selection.keys) for group in touched}
        if len(touched_in) > plan.partitions.per_unit:
            return f"one unit moves {len(touched_in)} partitions"
    return ""


def _row(plan: Plan, seen: Counts, group: Group) -> tuple[int | None, ...]:
    """A group's counts; on an unknown domain one without any is absent."""
    return seen.get(group, (None,) * len(plan.counts))


def _sums(plan: Plan, seen: dict[str, Counts], tried: Tried) -> list[tuple[str, str]]:
    """Ownership itself: what a unit adds does not depend on who else is there."""
    if any(n for row in seen.get("nobody", {}).values() for n in row):
        return [("rows without a unit are counted", "nobody")]
    places: Collection[int] = range(len(plan.counts))
    if plan.domain_size is None and plan.key_types and plan.existence is None:
        assert isinstance(plan.selection, (TopK, AboveThreshold, TopPerPartition))
        places = range(plan.selection.count, plan.selection.count + 1)
    for name, alone in seen.items():
        if not name.startswith("only") or f"minus{name[4:]}" not in seen:
            continue
        tried.alone += 1
        without, whole = seen[f"minus{name[4:]}"], seen["whole"]
        # Units may have the same values: different ones do not add up.
        places = [i for i in places if not any(isinstance(p, DistinctValues) for p in plan.counts[i].parts)]
        for group in whole.keys() | without.keys() | alone.keys():
            a, b, c = (_row(plan, s, group) for s in (without, alone, whole))
            for i in places:
                if (a[i] or 0) + (b[i] or 0) != (c[i] or 0):
                    return [(f"group {group} has {c[i]}, but {a[i]} without the unit and {b[i]} of it", name)]
    return []


def _difference(whole: Counts, other: Counts) -> str:
    groups = whole.keys() | other.keys()
    return "; ".join(
        f"{g}: {whole.get(g)} or {other.get(g)}" for g in groups if other.get(g) != whole.get(g)
    )[:300]
