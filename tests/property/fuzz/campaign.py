"""Statements times databases: a batch of statements on each database, each statement on several."""

from __future__ import annotations

import re
from random import Random

import pytest

from dpsql.analysis import Plan
from fuzz.check import EXTRA, FILES, Finding, Tried, compile_releases, run_all
from fuzz.data import FEW, big_data, small_data
from fuzz.mutant import Mutant
from fuzz.stage import UNITS, Stage
from fuzz.statements import Statement, statement
from fuzz.world import worlds

__all__ = ["FOCUS", "Campaign"]

BATCH = 10
KEPT = 10
"""Statements of earlier batches that run again on the next database."""

FOCUSED = 0.4
"""The share of statements that are made for some rules in particular."""

REPEATED = 0.4
"""How often parent keys repeat among units, against what the owner declares."""


FOCUS = (
    ("table items", "table orders", "join on the parent key", "IN parent key", "EXISTS parent key"),
    ("table items", "table orders", "subquery in a condition", "IN parent key", "EXISTS parent key"),
    ("table items", "table orders", "subquery", "GROUP BY unit", "GROUP BY parent key"),
    ("QUALIFY partitions", "table users", "key of the unit"),
    ("QUALIFY partitions", "key column"),
    ("unknown domain", "all groups of an unknown domain"),
    ("table users", "key of the unit"),
    ("weighted rows",),
    ("distinct values",),
    ("key range",),
    ("key pair",),
    ("clauses after the release",),
    ("a block around",),
)
"""Rules that chance alone brings together too rarely."""

SHARED = (("table likes", "table orders", "join on a shared key"),)
"""More of them, which the statements that are recorded do not have."""


class Campaign:
    """All worlds with their databases, and the figures of what ran."""

    def __init__(self, seed: int, *, big: float = 0.08, wide: float = 0.0) -> None:
        self.rng = Random(seed)
        self.stages = [Stage(world) for world in worlds()]
        self.kept: list[list[tuple[Statement, Plan]]] = [[] for _ in self.stages]
        self.big = big
        self.wide = wide
        """How often a database has as many units as can be removed, instead of a few."""
        self.rounds = 0
        self.tried = Tried()

    def close(self) -> None:
        """Let go of the databases."""
        for stage in self.stages:
            stage.close()
            stage.world.schema_database.close()

    def round(self, statements: int = BATCH) -> None:
        """Make a database, run a batch of new statements and some known ones on it and its neighbours."""
        place = self.rounds % len(self.stages)
        stage, known = self.stages[place], self.kept[place]
        self.rounds += 1
        plans = []
        for _ in range(statements):
            found = compile_releases(stage.world, self._statement(stage), self.tried)
            plans += found
            self.tried.shapes.update(shape(plan) for _, plan in found)
        again = self.rng.sample(known, min(KEPT, len(known)))
        known += plans
        if self.rng.random() < self.big:
            stage.fill(big_data(self.rng, stage.world))
        else:
            size = UNITS if self.rng.random() < self.wide else FEW
            stage.fill(small_data(self.rng, stage.world, size, repeated=REPEATED))
        also = [name for name in EXTRA if self.rng.random() < 0.45]
        also += [name for name in FILES if self.rng.random() < 0.1]
        run_all(stage, [*plans, *again], self.tried, also)

    def generate(self, statements: int) -> None:
        """Make and compile further statements, without counting anything."""
        for number in range(statements):
            stage = self.stages[number % len(self.stages)]
            compile_releases(stage.world, self._statement(stage), self.tried)

    def _statement(self, stage: Stage) -> Statement:
        focus = self.rng.choice((*FOCUS, *SHARED)) if self.rng.random() < FOCUSED else ()
        return statement(self.rng, stage.world, frozenset(focus))

    def hunt(self, mutant: Mutant, batches: int) -> Finding | None:
        """Look for a statement whose counts show that a rule is wrong; None if there was none."""
        for number in range(batches):
            stage = self.stages[number % len(self.stages)]
            tried = Tried()
            plans = self._changed(mutant, stage, tried)
            for _ in range(3 if plans else 0):
                stage.fill(small_data(self.rng, stage.world, repeated=REPEATED))
                run_all(stage, plans, tried, ("shuffled", "nobody", "only"))
                if tried.findings:
                    break
            if tried.findings:
                return tried.findings[0]
        return None

    def sound(self, texts: list[str]) -> int:
        """Run fixtures that the right rules accept; return how many they were. Findings raise."""
        accepted = 0
        for stage in self.stages:
            tried = Tried()
            made = [Statement(text, frozenset()) for text in texts]
            plans = [found for each in made for found in compile_releases(stage.world, each, tried)]
            accepted += len(plans)
            stage.fill(small_data(self.rng, stage.world, repeated=REPEATED))
            run_all(stage, plans, tried, ("shuffled",))
            if tried.findings:
                raise AssertionError("\n\n".join(map(str, tried.findings)))
        return accepted

    def _changed(self, mutant: Mutant, stage: Stage, tried: Tried) -> list[tuple[Statement, Plan]]:
        """Collect statements that the mutant compiles otherwise, or accepts where the right rule refuses."""
        plans: list[tuple[Statement, Plan]] = []
        fixture = Statement(mutant.statement, frozenset()) if mutant.statement else None
        for _ in range(1 if fixture else 40):
            made = fixture or statement(self.rng, stage.world, frozenset(mutant.focus))
            stage.world.schema_database._unique.clear()
            stage.world.schema_database.relations.clear()
            with pytest.MonkeyPatch.context() as patch:
                mutant.apply(patch)
                wrong = compile_releases(stage.world, made, tried)
            stage.world.schema_database._unique.clear()
            stage.world.schema_database.relations.clear()
            if not wrong and not tried.findings:
                continue
            other = Tried()
            right = compile_releases(stage.world, made, other)
            if tried.findings:
                if not other.findings:
                    return []
                tried.findings.clear()  # it is no worse than the right rule here
            same = [_what(plan) for _, plan in right]
            plans += [(each, plan) for each, plan in wrong if _what(plan) not in same]
            if len(plans) >= 6:
                break
        return plans


def _what(plan: Plan) -> tuple[object, ...]:
    return plan.compiled.sql, plan.counts, plan.one_group, plan.partitions


def shape(plan: Plan) -> str:
    """Reduce a compiled statement to its shape: no names, no constants."""
    text = re.sub(r"'(?:[^']|'')*'", "'", plan.compiled.sql)
    text = re.sub(r"\b[a-z]{1,2}\d+\b", "x", text)
    return re.sub(r"\b\d+(\.\d+)?\b", "0", text)
