"""Write the counting SQL: groups from public domains, counts from private rows.

The SQL reads the projected private rows (`u` the hidden unit, `k0`.. the keys, `f0`.. conditions) and yields
one row for each group: the keys, then the counts as BIGINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.analysis.relation import From
    from dpsql.analysis.released import Count, Part
    from dpsql.analysis.typed import KeyDomain, Typed

__all__ = ["Rows", "Written", "all_groups", "largest_groups", "one_group"]


@dataclass(frozen=True, slots=True)
class Written:
    """Counting SQL, and whether it ends in a total ORDER BY over public values of all keys."""

    sql: str
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """The projected private rows, and the counts over them."""

    sql: str
    keys: int
    parts: tuple[Part, ...]
    """The distinct parts of all counts, in order of first use."""
    counts: tuple[Count, ...]
    conditions: tuple[str, ...]

    @classmethod
    def of(cls, made: From, where: str, keys: Sequence[Typed], counts: Sequence[Count]) -> Rows:
        """Project the rows of a FROM clause to the unit, the keys and the conditions of all counts."""
        parts = tuple(dict.fromkeys(p for c in counts for p in c.parts))
        conditions = tuple(dict.fromkeys(p.condition for p in parts if p.condition is not None))
        projected = [f"{made.unit} AS u", *(f"{k.guarded} AS k{i}" for i, k in enumerate(keys))]
        projected += [f"{condition} AS f{i}" for i, condition in enumerate(conditions)]
        return cls(
            f"SELECT {', '.join(projected)} FROM {made.sql}{where}",
            len(keys),
            parts,
            tuple(counts),
            conditions,
        )

    def names(self, alias: str) -> str:
        """Return the list of key columns under an alias."""
        return ", ".join(f"{alias}.k{i}" for i in range(self.keys))

    def counted(self, alias: str, part: Part) -> str:
        """Return an expression that is the unit if the row counts for the part, else NULL."""
        if part.condition is None:
            return f"{alias}.u"
        return f"CASE WHEN {alias}.f{self.conditions.index(part.condition)} THEN {alias}.u END"

    def grouped(self) -> str:
        """Return the SQL of the counts by group; a part with a clamp is first counted by unit."""
        if any(p.clamp is not None for p in self.parts):
            return self._clamped()
        parts = {p: f"COUNT({'' if p.rows else 'DISTINCT '}{self.counted('s', p)})" for p in self.parts}
        return self._selected(parts, f"({self.sql}) AS s", "s")

    def _clamped(self) -> str:
        keys = [f"s.k{i}" for i in range(self.keys)]
        each = [f"COUNT({self.counted('s', p)}) AS r{i}" for i, p in enumerate(self.parts)]
        inner = (
            f"SELECT {', '.join(['s.u', *keys, *each])} FROM ({self.sql}) AS s "
            f"WHERE s.u IS NOT NULL GROUP BY {', '.join(['s.u', *keys])}"
        )
        parts = {}
        for i, p in enumerate(self.parts):
            if p.clamp is not None:
                parts[p] = f"COALESCE(TRY_CAST(SUM(LEAST(w.r{i}, {p.clamp})) AS BIGINT), 0)"
            else:
                parts[p] = f"COUNT(CASE WHEN w.r{i} > 0 THEN w.u END)"
        return self._selected(parts, f"({inner}) AS w", "w")

    def _selected(self, parts: dict[Part, str], source: str, alias: str) -> str:
        measured = [" - ".join(parts[p] for p in c.parts) + f" AS n{i}" for i, c in enumerate(self.counts)]
        if not self.keys:
            return f"SELECT {', '.join(measured)} FROM {source}"
        names = self.names(alias)
        return f"SELECT {names}, {', '.join(measured)} FROM {source} GROUP BY {names}"

    def bounded(self, groups: int, domains: Sequence[KeyDomain]) -> Rows:
        """Keep each unit's rows in at most `groups` groups of the domain, chosen by a hash."""
        sources = " ".join(f"JOIN ({d.sql}) AS d{i} ON s.k{i} = d{i}.v" for i, d in enumerate(domains))
        names, kept = self.names("s"), self.names("x")
        pairs = f"SELECT DISTINCT s.u, {names} FROM ({self.sql}) AS s {sources} WHERE s.u IS NOT NULL"
        window = f"PARTITION BY x.u ORDER BY hash(x.u, {kept}), {kept}"
        ranked = f"SELECT x.u, {kept}, ROW_NUMBER() OVER ({window}) AS r FROM ({pairs}) AS x"
        on = " AND ".join(["y.u = z.u", *(f"y.k{i} = z.k{i}" for i in range(self.keys))])
        listed = ["u", *(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(len(self.conditions)))]
        columns = ", ".join(f"y.{name} AS {name}" for name in listed)
        sql = f"SELECT {columns} FROM ({self.sql}) AS y JOIN ({ranked}) AS z ON {on} WHERE z.r <= {groups}"
        return Rows(sql, self.keys, self.parts, self.counts, self.conditions)


def one_group(rows: Rows) -> Written:
    """Count all rows together. The result is one row, so its order is public."""
    return Written(rows.grouped(), ordered=True)


def all_groups(rows: Rows, domains: Sequence[KeyDomain], order: Sequence[tuple[int, bool]] | None) -> Written:
    """Count every group of the domain, also the empty ones; in a public order if one is asked for.

    The terms of the order are columns of the domains alone: the keys that the statement names, then for
    every key its place `o` in its domain, or its value where the domain has no order of its own. Both are
    distinct within a domain, so no two groups are equal in all terms, and the order is total.
    Every engine compares values alike: texts by their bytes (PostgreSQL under COLLATE "C"), never by locale.
    """
    sources = " CROSS JOIN ".join(f"({d.sql}) AS d{i}" for i, d in enumerate(domains))
    head = ", ".join(f"d{i}.v AS k{i}" for i in range(rows.keys))
    tail = ", ".join(f"COALESCE(g.n{i}, 0) AS n{i}" for i in range(len(rows.counts)))
    on = " AND ".join(f"g.k{i} = d{i}.v" for i in range(rows.keys))
    text = f"SELECT {head}, {tail} FROM {sources} LEFT JOIN ({rows.grouped()}) AS g ON {on}"
    if order is None:
        return Written(text)
    chosen = [f"d{i}.v{' DESC' if descending else ''}" for i, descending in order]
    rest = [f"d{i}.{'o' if d.ordered else 'v'}" for i, d in enumerate(domains)]
    return Written(f"{text} ORDER BY {', '.join([*chosen, *rest])}", ordered=True)


def largest_groups(rows: Rows, count: int, candidates: int) -> Written:
    """Count only the `candidates + 1` largest groups; of equal groups, those with the least keys.

    The groups and their order depend on the counts, so the order is not public. Groups with equal counts are
    ordered by their keys, so that the physical order of rows has no influence.
    """
    there = " AND ".join([*(f"g.k{i} IS NOT NULL" for i in range(rows.keys)), f"g.n{count} > 0"])
    listed = ", ".join([rows.names("g"), *(f"g.n{i}" for i in range(len(rows.counts)))])
    return Written(
        f"SELECT {listed} FROM ({rows.grouped()}) AS g WHERE {there} "
        f"ORDER BY g.n{count} DESC, {rows.names('g')} LIMIT {candidates + 1}"
    )
