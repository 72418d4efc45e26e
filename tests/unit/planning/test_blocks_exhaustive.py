"""The noise of moments on all tiny inputs: what one unit can tell apart, in all groups and moments together.

Every unit with up to three rows in two groups is counted by the shipped query, in groups of its own. The law
of the noise is P(z) ~ exp(-|z| / scale) on a grid, so what an output says for one input against another is
enumerated number by number where it is most; numbers have independent noise, so their largest losses add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dpsql.kernel.mechanisms import Laplace
from dpsql.planning.all_groups import EveryCount
from dpsql.session import Session
from tests.narrow import engine_of, of_type, private
from tests.support.exact import exact_of
from tests.support.world import open_world

EPSILON = Fraction(3, 4)
CELLS = [*product((0, 1), (0, 1, 2, None))]
"""All rows: one of two groups, and a value from 0 to 2 or none."""
OWN = [rows for size in (1, 2, 3) for rows in combinations_with_replacement(CELLS, size)]
POLICY = """
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
rows_per_unit = 2
[tables.t.domain]
g = {{ from = 0, to = {last}, complete = true }}
[tables.t.bounds]
v = {{ from = 0, to = 2 }}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """All units, unit i in the groups 2i and 2i + 1."""
    folder = tmp_path_factory.mktemp("units")
    rows = [(i, 2 * i + g, v) for i, own in enumerate(OWN) for g, v in own]
    columns = {name: [row[place] for row in rows] for place, name in enumerate("ugv")}
    with open_world(folder, POLICY.format(last=2 * len(OWN) - 1), t=columns) as made:
        yield made


def most_told(move: int, scale: Fraction) -> Fraction:
    """The largest log ratio of the laws of a number and of the same moved by so many, over all outputs.

    The ratio is linear in the output but at 0 and at `move`: outputs near one of these tell most.
    """
    halves = {near + by for near in (0, 2 * move) for by in range(-3, 4)}
    return max((abs(Fraction(z, 2) - move) - abs(Fraction(z, 2))) / scale for z in halves)


def losses(
    session: Session, items: str, parts: int, most: int, noise: Laplace | None = None
) -> tuple[Laplace, Fraction, list[Fraction]]:
    """Return the noise where so many rows of a unit count, its step, and what it or another tells of each."""
    options = f"epsilon = {float(EPSILON)}, max_rows_contributed = {most}"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) g, {items} FROM t GROUP BY g"
    prepared = private(session.prepare(text))
    method, counts = of_type(prepared.method, EveryCount), engine_of(session).count(prepared.plan.compiled)
    (block,) = method.blocks
    assert len(block.places) == parts
    noise = noise or block.noise(2)
    order = np.argsort(exact_of(counts).keys.column("k0").to_numpy())
    every = np.stack([exact_of(counts).n[place][order] for place in block.places])
    told = []
    for unit in range(len(OWN)):
        moved = every[:, [2 * unit, 2 * unit + 1]].ravel().tolist()
        told.append(sum((most_told(move, noise.scale) for move in moved), Fraction(0)))
    return noise, prepared.plan.counts[block.places[0]].step, told


STATEMENTS = {
    "SUM alone": ("SUM(v)", 1),
    "degree 1": ("AVG(v)", 2),
    "degree 1, and rows without a value": ("AVG(v), COUNT(*)", 3),
    "degree 2": ("VAR_POP(v), SUM(v)", 3),
    "degree 2, and rows without a value": ("VAR_POP(v), AVG(v), COUNT(*), COUNT(v)", 4),
}


@pytest.mark.parametrize(("items", "parts"), STATEMENTS.values(), ids=STATEMENTS)
@pytest.mark.sampled(3)
def test_one_unit_tells_epsilon_in_all_groups_and_moments_together(
    session: Session, items: str, parts: int
) -> None:
    noise, step, told = losses(session, items, parts, 2)
    assert max(told) == EPSILON == noise.loss.charge.epsilon
    # Where three rows of a unit count, the noise for two is not enough.
    _, other_step, more = losses(session, items, parts, 3, noise)
    assert max(more) * other_step / step > EPSILON
