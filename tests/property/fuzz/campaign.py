"""Statements times databases: a batch of statements on each database, each statement on several."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from dpsql.analysis import Plan

from fuzz.check import Tried, compile_statement, run_all
from fuzz.data import big_data, small_data
from fuzz.stage import Stage
from fuzz.statements import Statement, statement
from fuzz.world import World, worlds

__all__ = ["Campaign"]

BATCH = 10
KEPT = 10
"""Statements of earlier batches that run again on the next database."""


class Campaign:
    """All worlds with their databases, and the figures of what ran."""

    def __init__(self, seed: int, *, big: float = 0.08) -> None:
        self.rng = Random(seed)
        self.stages = [Stage(world) for world in worlds()]
        self.kept: list[list[tuple[Statement, Plan]]] = [[] for _ in self.stages]
        self.big = big
        self.rounds = 0
        self.tried = Tried()

    def close(self) -> None:
        """Let go of the databases."""
        for stage in self.stages:
            stage.close()
            stage.world.shell.close()

    def round(self, focus: frozenset[str] = frozenset(), only: Callable[[World, Statement, Plan], bool] | None = None) -> None:
        """Make a database, run a batch of new statements and some known ones on it and its neighbours."""
        stage, known = (
            self.stages[self.rounds % len(self.stages)],
            self.kept[self.rounds % len(self.stages)],
        )
        self.rounds += 1
        world = stage.world
        plans = []
        for _ in range(BATCH):
            made = statement(self.rng, world, focus)
            plan = compile_statement(world, made, self.tried)
            if plan is not None and (only is None or only(world, made, plan)):
                plans.append((made, plan))
                self.tried.shapes.add(shape(plan))
        again = self.rng.sample(known, min(KEPT, len(known)))
        known += plans
        large = self.rng.random() < self.big
        stage.fill(big_data(self.rng, world) if large else small_data(self.rng, world))
        run_all(stage, [*plans, *again], self.tried, alone=self.rng.random() < 0.35)


def shape(plan: Plan) -> str:
    """Reduce a compiled statement to its shape: no names, no constants."""
    text = re.sub(r"'(?:[^']|'')*'", "'", plan.compiled.sql)
    text = re.sub(r"\b[a-z]{1,2}\d+\b", "x", text)
    return re.sub(r"\b\d+(\.\d+)?\b", "0", text)
