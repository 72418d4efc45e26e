"""Statements times databases: a batch of statements on each database, each statement on several."""

from __future__ import annotations

import re
from random import Random

import pytest

from dpsql.analysis import Plan
from fuzz.check import EXTRA, FILES, Finding, Tried, compile_statement, run_all
from fuzz.data import FEW, big_data, small_data
from fuzz.mutant import Mutant
from fuzz.stage import UNITS, Stage
from fuzz.statements import Statement, statement
from fuzz.world import worlds

__all__ = ["Campaign"]

BATCH = 10
KEPT = 10
"""Statements of earlier batches that run again on the next database."""


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
            made = statement(self.rng, stage.world)
            plan = compile_statement(stage.world, made, self.tried)
            if plan is not None:
                plans.append((made, plan))
                self.tried.shapes.add(shape(plan))
        again = self.rng.sample(known, min(KEPT, len(known)))
        known += plans
        if self.rng.random() < self.big:
            stage.fill(big_data(self.rng, stage.world))
        else:
            size = UNITS if self.rng.random() < self.wide else FEW
            stage.fill(small_data(self.rng, stage.world, size))
        also = [name for name in EXTRA if self.rng.random() < 0.45]
        also += [name for name in FILES if self.rng.random() < 0.1]
        run_all(stage, [*plans, *again], self.tried, also)

    def generate(self, statements: int) -> None:
        """Make and compile further statements, without counting anything."""
        for number in range(statements):
            world = self.stages[number % len(self.stages)].world
            compile_statement(world, statement(self.rng, world), self.tried)

    def hunt(self, mutant: Mutant, batches: int) -> Finding | None:
        """Look for a statement whose counts show that a rule is wrong; None if there was none."""
        for number in range(batches):
            stage = self.stages[number % len(self.stages)]
            tried = Tried()
            plans = self._changed(mutant, stage, tried)
            for _ in range(3 if plans else 0):
                stage.fill(small_data(self.rng, stage.world))
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
            plans = [(m, p) for m in made if (p := compile_statement(stage.world, m, tried)) is not None]
            accepted += len(plans)
            stage.fill(small_data(self.rng, stage.world))
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
            with pytest.MonkeyPatch.context() as patch:
                mutant.apply(patch)
                wrong = compile_statement(stage.world, made, tried)
            stage.world.schema_database._unique.clear()
            if wrong is None and not tried.findings:
                continue
            other = Tried()
            right = compile_statement(stage.world, made, other)
            if tried.findings:
                if not other.findings:
                    return []
                tried.findings.clear()  # it is no worse than the right rule here
            if wrong is not None and (right is None or _what(right) != _what(wrong)):
                plans.append((made, wrong))
            if len(plans) == 6:
                break
        return plans


def _what(plan: Plan) -> tuple[object, ...]:
    return plan.compiled.sql, plan.counts, plan.one_group, plan.partitions


def shape(plan: Plan) -> str:
    """Reduce a compiled statement to its shape: no names, no constants."""
    text = re.sub(r"'(?:[^']|'')*'", "'", plan.compiled.sql)
    text = re.sub(r"\b[a-z]{1,2}\d+\b", "x", text)
    return re.sub(r"\b\d+(\.\d+)?\b", "0", text)
