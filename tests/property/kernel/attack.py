"""Rounds of edits: each edited tree is refused, or holds what is certified of it on random databases.

It is counted with all units and without each one, and with the rows in another order. It must not fail on one
database alone. A query that takes long on so few rows is left out, and counted as slow.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import duckdb

from dpsql.kernel.check import Certificate, NotCertified, renew
from dpsql.kernel.check import certify as certified
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Query, Scan, duckdb_sql, walk
from kernel.claims import Broken, Counted, broken, count, cut_wrongly, uncut
from kernel.edits import edited
from kernel.grounds import Compiled, Ground

__all__ = ["FILLS", "Attack", "Claimed", "Figures", "Finding", "hold"]

Certify = Callable[[Query, Facts], Certificate]

STATEMENTS = 6
EDITS = 12
FILLS = 3
LONG = 2.0
"""Seconds after which a query is left out."""


@dataclass(frozen=True)
class Claimed:
    """A query that was certified, the tree it was edited from, and how."""

    query: Query
    claim: Certificate
    made: Compiled
    edits: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """A certificate that does not hold."""

    what: str
    where: str
    claimed: Claimed
    rows: str

    def __str__(self) -> str:
        c, claim = self.claimed, self.claimed.claim
        parts = (
            f"{self.what} [{self.where}]",
            f"edit: {'; then '.join(c.edits) or 'none'}",
            f"statement: {c.made.text}",
            f"tree as SQL: {duckdb_sql(c.query)}",
            f"from: {duckdb_sql(c.made.query)}",
            f"certificate: {claim.keys.name} {claim.columns} {claim.numbers} most_groups={claim.most_groups} "
            f"decides={claim.decides} largest={claim.largest} grouped_by={claim.grouped_by}",
            *(f"  {step}" for step in claim.derivation),
            f"rows: {self.rows}",
            f"tree: {c.query!r}",
        )
        return "\n".join(parts)


@dataclass
class Figures:
    """What came of the edits."""

    edits: int = 0
    same: int = 0
    unbound: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    """By the edit."""
    unproved: int = 0
    """Trees that were not edited and that are not certified."""
    slow: int = 0
    failing: int = 0
    """Accepted trees that fail on every database."""
    comparisons: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Add the figures of another process."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return (
            f"{self.edits} edits: {self.same} changed nothing, {self.unbound} did not bind, "
            f"{self.refused.total()} refused, {self.accepted.total()} accepted "
            f"({self.slow} slow, {self.failing} fail on all data); {self.comparisons} comparisons, "
            f"{len(self.findings)} broken claims"
        )


class Attack:
    """Edits of the queries of some grounds."""

    def __init__(self, grounds: Sequence[Ground], seed: int, certify: Certify = certified) -> None:
        self.grounds = grounds
        self.rng = Random(seed)
        self.certify = certify
        self.figures = Figures()
        self.rounds = 0

    def round(self, edits: int = EDITS, statements: int = STATEMENTS, fills: int = FILLS) -> None:
        """Edit the queries of some statements of one ground, and count what is accepted on some databases."""
        ground = self.grounds[self.rounds % len(self.grounds)]
        if self.rounds < len(self.grounds):
            ground.fill(self.rng)  # without tables nothing binds
        self.rounds += 1
        claimed = list[Claimed]()
        for _ in range(statements):
            for made in ground.compiled(ground.draw(self.rng)):
                whole = self._claim(ground, made, made.query, ())
                if whole is None:
                    self.figures.unproved += 1
                    continue
                claimed.append(whole)
                claimed += self._edited(ground, made, whole, edits)
        self.figures.findings += hold(ground, claimed, self.rng, fills, self.figures)

    def _edited(self, ground: Ground, made: Compiled, whole: Claimed, edits: int) -> list[Claimed]:
        found, figures = list[Claimed](), self.figures
        for _ in range(edits):
            figures.edits += 1
            new = edited(made.query, self.rng)
            if new is None:
                figures.same += 1
                continue
            ground.enter("whole")
            try:
                ground.connection.sql(duckdb_sql(new.query))
            except duckdb.Error:
                figures.unbound += 1
                continue
            claim = self._claim(ground, made, new.query, new.edits)
            again = renew(whole.claim, new.query, ground.facts)  # of other constants alone
            if again is not None and (claim is None or again != claim.claim):
                raise AssertionError(f"renewed without a proof: {new.edits}\n{duckdb_sql(new.query)}")
            if claim is not None:
                figures.accepted[new.edits[-1]] += 1
                found.append(claim)
        return found

    def _claim(self, ground: Ground, made: Compiled, query: Query, edits: tuple[str, ...]) -> Claimed | None:
        try:
            return Claimed(query, self.certify(query, ground.facts), made, edits)
        except NotCertified as refused:
            rule = refused.rule
        except Exception as error:  # noqa: BLE001  whatever it is, nothing is counted
            rule = f"raised {type(error).__name__}: {str(error)[:80]}"
        if edits:
            self.figures.refused[rule] += 1
        return None


def hold(
    ground: Ground, claimed: Sequence[Claimed], rng: Random, fills: int, figures: Figures
) -> list[Finding]:
    """Count certified queries on random databases; return those whose certificate does not hold."""
    found: dict[int, Finding] = {}
    failed: dict[int, list[str]] = {}
    counted, slow = set[int](), set[int]()
    texts = [duckdb_sql(uncut(c.query, c.claim)) for c in claimed]
    parsed = [ground.connection.extract_statements(text)[0] for text in texts]
    for _ in range(fills if claimed else 0):
        seen: dict[int, dict[str, Counted]] = {}
        for name in (*ground.fill(rng), "whole", "shuffled"):
            ground.enter(name)
            # Planning takes longest. What is found is counted again with the optimizer, and so is one order.
            ground.connection.execute(f"PRAGMA {'enable' if name == 'shuffled' else 'disable'}_optimizer")
            for i, c in enumerate(claimed):
                if i in slow or i in found:
                    continue
                try:
                    seen.setdefault(i, {})[name] = _timed(ground.connection, parsed[i], c.claim)
                    counted.add(i)
                except Broken as wrong:
                    _confirm(ground, c, parsed[i], wrong, name, found, i)
                except duckdb.InterruptException:
                    slow.add(i)
                except duckdb.Error as error:
                    failed.setdefault(i, []).append(f"{name}: {str(error)[:150]}")
        for i, by_name in seen.items():
            figures.comparisons += len(by_name)
            if i not in found and "whole" in by_name:
                differs = _compared(ground, claimed[i], parsed[i], by_name)
                if differs:
                    found[i] = Finding(*differs, claimed[i], _rows(ground, claimed[i].query))
    for i, names_failed in failed.items():
        if i in counted and i not in found:
            what = f"it fails on some data alone: {names_failed[0]}"
            found[i] = Finding(what, ground.name, claimed[i], _rows(ground, claimed[i].query))
        figures.failing += i not in counted
    figures.slow += len(slow)
    return list(found.values())


def _confirm(
    ground: Ground,
    claimed: Claimed,
    parsed: duckdb.Statement,
    wrong: Broken,
    name: str,
    found: dict[int, Finding],
    number: int,
) -> None:
    """Count exactly what is not as certified, and note it if that is so."""
    try:
        count(ground.connection, parsed, claimed.claim, exact=True)
    except Broken:
        where = f"{ground.name} {name}"
        found[number] = Finding(str(wrong), where, claimed, _rows(ground, claimed.query))
        ground.enter(name)


def _compared(
    ground: Ground, claimed: Claimed, parsed: duckdb.Statement, by_name: dict[str, Counted]
) -> tuple[str, str] | None:
    """Compare with the neighbours; what differs is counted again, exactly."""
    whole = by_name["whole"]
    if claimed.claim.largest is not None:
        ground.enter("whole")
        (cut,) = ground.connection.extract_statements(duckdb_sql(claimed.query))
        wrong = cut_wrongly(claimed.claim, whole, count(ground.connection, cut, claimed.claim))
        if wrong:
            return wrong, f"{ground.name} whole"
    for name, other in by_name.items():
        if not _difference(claimed.claim, name, whole, other):
            continue
        both = []
        ground.connection.execute("PRAGMA enable_optimizer")
        for place in ("whole", name):
            ground.enter(place)
            both.append(count(ground.connection, parsed, claimed.claim, exact=True))
        wrong = _difference(claimed.claim, name, *both)
        if wrong:
            return wrong, f"{ground.name} {name}"
    return None


def _difference(claim: Certificate, name: str, whole: Counted, other: Counted) -> str:
    if name == "shuffled":
        return "" if whole == other else f"the counts depend on the order of rows: {whole} or {other}"
    return broken(claim, whole, other)


def _timed(connection: duckdb.DuckDBPyConnection, sql: duckdb.Statement, claim: Certificate) -> Counted:
    timer = threading.Timer(LONG, connection.interrupt)
    timer.start()
    try:
        return count(connection, sql, claim)
    finally:
        timer.cancel()


def _rows(ground: Ground, query: Query) -> str:
    """Write the rows of the private tables that a query reads."""
    ground.enter("whole")
    listed = []
    for table in sorted({node.table for node in walk(query) if isinstance(node, Scan)}):
        rows = ground.connection.sql(f"SELECT * FROM main.{table} LIMIT 40").fetchall()
        listed.append(f"{table} {rows}")
    return "; ".join(listed)
