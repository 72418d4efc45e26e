"""What one unit moves of sums, averages and variances, on random databases: see `fuzz.sums`.

Each mutant is one slip of the compiled forms: it is noticed by the claim or by the whole numbers of Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from fuzz.mutant import Mutant
from fuzz.sums import FORMS, Sums

from tests.daily import daily

SEED = 20261122


@pytest.fixture(scope="module")
def sums() -> Iterator[Sums]:
    made = Sums(SEED, databases=8)
    yield made
    made.close()


def test_no_unit_moves_a_sum_beyond_its_bounds_and_every_bound_is_reached(sums: Sums) -> None:
    for _ in range(2):
        sums.fill()
        for _ in range(18):
            sums.check(sums.statement())
    print(sums.tally)
    assert not sums.tally.findings, "\n\n".join(sums.tally.findings[:3])
    assert all(sums.tally.removals[form] >= 200 for form in FORMS)
    assert {form: sums.tally.reached[form] for form in FORMS} == dict.fromkeys(FORMS, 1)


SHARED = ("SUM", "AVG", "VAR_POP", "COUNT", "COUNT(*)", "all together")
"""The forms to which each row adds its share, where units may have more rows than count."""


@pytest.mark.parametrize("statements", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_numbers_are_those_that_the_definition_gives_for_each_unit(statements: int) -> None:
    sums, shared = Sums(SEED + 1, databases=1), 0
    try:
        for place in range(statements):
            if place % 10 == 0:
                sums.fill()
            made = sums.statement(SHARED)
            parts = (part for count in made.plan.counts for part in count.parts)
            shared += any(getattr(getattr(part, "vector", part), "fine", 1) > 1 for part in parts)
            sums.check(made)
    finally:
        sums.close()
    print(f"{statements:,} statements, {shared:,} with shares of rows; {sums.tally}")
    assert not sums.tally.findings, "\n\n".join(sums.tally.findings[:3])
    assert shared > statements / 4


@pytest.mark.slow
def test_campaign_of_sums() -> None:
    """`DPSQL_REMOVALS` of each form; `DPSQL_SEED` repeats a campaign that failed."""
    wanted = int(os.environ.get("DPSQL_REMOVALS", "100000"))
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    sums, tally = Sums(seed, databases=80), None
    try:
        tally = sums.tally
        while min(tally.removals[form] for form in FORMS) < wanted and not tally.findings:
            statements = [sums.statement() for _ in range(30)]
            for _ in range(3):
                sums.fill()
                for each in statements:
                    sums.check(each, modelled=2)
            print(seed, tally, flush=True)
    finally:
        sums.close()
    assert not tally.findings, f"seed {seed}: " + "\n\n".join(tally.findings[:3])
    assert all(tally.reached[form] == 1 for form in FORMS)


def mutant(name: str, focus: str, *edits: tuple[str, str, str, str]) -> Mutant:
    return Mutant(name, edits, (focus,))


TOTAL = 'return (Aggregate("SUM", row),)'
SLIPS = (
    mutant(
        "DOUBLEs are summed, not steps",
        "SUM",
        (
            "kernel.tree.writer",
            "_steps",
            """("TRY_CAST(floor(", x, f" * {factor} + {half}) AS {'HUGEINT' if node.wide else 'BIGINT'})")""",
            '("(", x, f" * {factor})")',
        ),
    ),
    mutant(
        "NULL is the lower bound",
        "AVG",
        (
            "analysis.grids",
            "Grid.write_steps",
            "return self._nearest(value, self.type, self._size, base)",
            "there = self._nearest(value, self.type, self._size, base)\n"
            "    return Case(((IsNull(value), whole(self.low - base)),), there)",
        ),
    ),
    mutant(
        "a total beyond 64 bits is 0",
        "SUM per group",
        (
            "kernel.tree.counted",
            "UnitValue.of_unit",
            TOTAL,
            "from dpsql.types import BIGINT\n    "
            + TOTAL.replace(
                'Aggregate("SUM", row)', 'Call("COALESCE", (Cast(Aggregate("SUM", row), BIGINT), whole(0)))'
            ),
        ),
    ),
    mutant(
        "a unit's total is a sum of DOUBLEs",
        "SUM per group",
        (
            "kernel.tree.counted",
            "UnitValue.of_unit",
            TOTAL,
            "from dpsql.types import DOUBLE\n    "
            + TOTAL.replace('"SUM", row', '"SUM", (Cast(row[0], DOUBLE),)'),
        ),
    ),
    mutant(
        "C rows count in each group",
        "SUM",
        (
            "kernel.tree.bounding",
            "Weighted.large_units",
            "IsNull(own, negated=True), group=(own,))",
            'IsNull(own, negated=True), group=(own, *columns("s", "k", min(self.keys, 1))))',
        ),
    ),
    mutant(
        "the first moment is rounded by itself",
        "VAR_POP",
        (
            "kernel.tree.row_shares",
            "Moment.share",
            "return self._of([self.share_of(n, a) for n in self._numbers_of_row(row)])",
            "numbers = self._numbers_of_row(row)\n"
            '    numbers[0] = Paren(reduce(partial(Binary, "-"), numbers))\n'
            "    return self.share_of(numbers[self.place], a)",
        ),
    ),
    mutant(
        "weights are rounded up",
        "SUM",
        (
            "kernel.tree.row_shares",
            "SharedRows.share_of",
            'return Paren(Binary("//", number, Call("GREATEST", (a, whole(self.most)))))',
            'share = Binary("//", number, Call("GREATEST", (a, whole(self.most))))\n'
            '    return Paren(Binary("+", share, whole(1)))',
        ),
    ),
    mutant(
        "a count has the rows that its condition leaves out",
        "COUNT(*)",
        (
            "analysis.released.unit_counts",
            "weigh_by_shares",
            "replace(part, fine=fine)",
            "replace(part, fine=fine, row=())",
        ),
    ),
    mutant(
        "a row more of a unit counts",
        "COUNT(*)",
        (
            "analysis.released.unit_counts",
            "WeightedRows.build_counted",
            "row, self.most, self.fine",
            "row, self.most + 1, self.fine",
        ),
    ),
    mutant(
        "a row has more parts than are claimed",
        "COUNT(*)",
        (
            "analysis.released.unit_counts",
            "WeightedRows.build_counted",
            "row, self.most, self.fine",
            "row, self.most, 2 * self.fine",
        ),
    ),
    mutant(
        "a total is not cut",
        "SUM per group",
        (
            "analysis.grids",
            "Grid._nearest",
            "cut = Case(tuple(branches), inside) if branches else inside",
            "cut = inside",
        ),
    ),
)


@pytest.mark.parametrize("slip", daily(SLIPS, 1), ids=lambda m: m.name)
def test_a_slip_is_noticed(slip: Mutant) -> None:
    sums = Sums(SEED, databases=12)
    try:
        with pytest.MonkeyPatch.context() as patch:
            slip.apply(patch)
            for _ in range(6):
                sums.fill()
                for _ in range(8):
                    sums.check(sums.statement(slip.focus))
                if sums.tally.findings:
                    break
        assert sums.tally.findings
    finally:
        sums.close()
