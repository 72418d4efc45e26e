"""How much of what the analysis accepts is certified.

`python -m tests.property.kernel.completeness --random 10000 [--corpus FOLDER]` prints for each set of
statements how many are certified with all of their queries, what the others lack, and how long it took.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.world import worlds

from dpsql.engines import open_engine
from dpsql.errors import Error
from dpsql.language import Options
from dpsql.policy import load
from kernel.agreement import disagreement
from kernel.grounds import Compiled, FixtureGround, Ground, WorldGround

__all__ = ["Share", "corpus_shares", "share_of"]


@dataclass
class Share:
    """How many statements of a set are certified, with what the others lack."""

    name: str
    accepted: int = 0
    certified: int = 0
    queries: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    lacking: list[tuple[str, str]] = field(default_factory=list)
    """The statements that are not certified, and why."""
    times: list[float] = field(default_factory=list)
    """Milliseconds for all queries of a statement."""
    slowest: tuple[float, str] = (0.0, "")
    """The statement that took longest, with its milliseconds."""

    def __str__(self) -> str:
        share = self.certified / max(1, self.accepted)
        ordered = sorted(self.times) or [0.0]
        median, late = ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]
        return (
            f"{self.name}: {self.certified}/{self.accepted} certified ({share:.2%}), {self.queries} queries, "
            f"{median:.2f} ms of processor time a statement, 95th {late:.2f} ms"
        )


def share_of(name: str, ground: Ground, texts: Iterable[str]) -> Share:
    """Certify the queries of statements; those that are refused do not count."""
    found = Share(name)
    for text in texts:
        made = ground.compiled(text)
        if not made:
            continue
        begin = time.process_time()
        reasons = [r for r in (disagreement(each, ground.facts) for each in made) if r]
        found.times.append((time.process_time() - begin) * 1000)
        found.slowest = max(found.slowest, (found.times[-1], text))
        found.accepted += 1
        found.queries += len(made)
        if reasons:
            found.reasons.update({re.sub(r"\d+", "N", reason) for reason in reasons})
            found.lacking.append((text, "; ".join(reasons)))
        else:
            found.certified += 1
    return found


def random_statements(ground: Ground, number: int, rng: Random) -> Iterator[str]:
    """Draw random statements of a world."""
    for _ in range(number):
        yield ground.draw(rng)


BUDGET = """
[budget]
epsilon = 1e30
delta = 0.9
max_epsilon_per_query = 1e25
default_epsilon = 1
default_delta = 1e-4
ledger = "{name}-ledger.sqlite"
[database]
path = "{name}.duckdb"
"""


def corpus_shares(folder: Path, build: Path) -> Iterator[Share]:
    """Certify what is accepted of a corpus: folders with `data.sql`, `policy.toml` and `statements.sql`."""
    sources = folder / "sources"
    for source in sorted(path.parent for path in sources.glob("*/policy.toml")):
        with duckdb.connect(str(build / f"{source.name}.duckdb")) as connection:
            connection.execute((sources / "macros.sql").read_text("utf-8"))
            connection.execute((source / "data.sql").read_text("utf-8"))
        policy = BUDGET.format(name=source.name) + (source / "policy.toml").read_text("utf-8")
        place = build / f"{source.name}.toml"
        place.write_text(policy + (sources / "defaults.toml").read_text("utf-8"), "utf-8")
        files = [source / name for name in ("statements.sql", "spellings.sql") if (source / name).exists()]
        texts = [text for file in files for text in _statements(file)]
        ground = PolicyGround(place)
        try:
            yield share_of(f"corpus {source.name}", ground, texts)
        finally:
            ground.close()


def _statements(path: Path) -> list[str]:
    blocks = re.split(r"(?m)^--@ ", path.read_text("utf-8"))[1:]
    return [re.sub(r";\s*(--[^\n]*)?\s*$", "", block.split("\n", 1)[1].strip()) for block in blocks]


class PolicyGround(Ground):
    """The statements of any policy, which are certified and not counted."""

    def __init__(self, path: Path) -> None:
        self.policy = load(path)
        self.engine = open_engine(self.policy)
        self.schema = self.engine.schema_database
        self.defaults = Options(epsilon=Fraction(1), delta=Fraction(1, 10**4))
        super().__init__()

    def draw(self, rng: Random) -> str:
        raise NotImplementedError

    def fill(self, rng: Random) -> list[str]:
        raise NotImplementedError

    def enter(self, name: str) -> None:
        raise NotImplementedError

    def compiled(self, text: str) -> list[Compiled]:
        try:
            return super().compiled(text)
        except (Error, AssertionError):  # a statement of another kind
            return []

    def close(self) -> None:
        self.engine.close()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--show", type=int, default=5, help="so many of each set that are not certified")
    asked = parser.parse_args()
    total = Share("all")
    for share in _shares(asked):
        print(share, flush=True)
        if asked.show:
            print(f"  slowest, {share.slowest[0]:.1f} ms:\n    {share.slowest[1]}")
        for text, why in share.lacking[: asked.show]:
            print(f"  {why}\n    {text}")
        total.accepted += share.accepted
        total.certified += share.certified
        total.queries += share.queries
        total.times += share.times
        total.reasons.update(share.reasons)
    print(total)
    print("not certified:", *(f"{times} {rule}" for rule, times in total.reasons.most_common()), sep="\n  ")
    sys.exit(total.certified < total.accepted)


def _shares(asked: argparse.Namespace) -> Iterator[Share]:
    rng = Random(asked.seed)
    fixtures = FixtureGround()
    yield share_of("fixtures", fixtures, fixtures.texts)
    fixtures.close()
    made = worlds()
    for world in made:
        ground = WorldGround(world)
        yield share_of(
            f"random {world.name}", ground, random_statements(ground, asked.random // len(made), rng)
        )
        ground.close()
    if asked.corpus is not None:
        with tempfile.TemporaryDirectory() as build:
            yield from corpus_shares(asked.corpus, Path(build))


if __name__ == "__main__":
    main()
