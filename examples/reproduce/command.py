"""The command line: what to measure, on what, and where the report goes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import dpsql
from dpsql.noise import SeededEntropy
from reproduce import coverage, error_reduction, hybrids, significance, thresholds, unknown
from reproduce.page import Section, Table, write
from reproduce.sets import DataSet, given, made

__all__ = ["main"]

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One section: how many ticks of the progress bar it takes, each how heavy, and its run."""

    steps: int
    weight: float
    run: Callable[[Tick], Section]


def experiments(sets: Sequence[DataSet], trials: int, seed: int) -> list[Experiment]:
    """Lay out all experiments; `trials` is the number of runs behind one point of the costliest ones."""
    entropy = SeededEntropy(seed)
    known = [one for one in sets if not one.unknown]
    first, last = known[:2], known[-1:]
    open_ = [one for one in sets if one.unknown]
    noises = len(error_reduction.NOISES)
    ks = len(error_reduction.KS)
    return [
        Experiment(
            len(first) * noises * ks, 6, lambda tick: error_reduction.over_k(first, 5 * trials, entropy, tick)
        ),
        Experiment(
            noises * len(error_reduction.EPSILONS),
            12,
            lambda tick: error_reduction.over_epsilon(last, 3 * trials, entropy, tick),
        ),
        Experiment(
            noises * ks, 2, lambda tick: error_reduction.over_threshold(first[:1], 3 * trials, entropy, tick)
        ),
        Experiment(
            len(known) * len(thresholds.KS) * len(thresholds.NAMES),
            2,
            lambda tick: thresholds.adaptivity(known, trials, entropy, tick),
        ),
        Experiment(
            len(first) * len(thresholds.KS), 1.5, lambda tick: hybrids.hybrids(first, trials, entropy, tick)
        ),
        Experiment(
            len(first) * len(significance.STRENGTHS),
            5,
            lambda tick: significance.p_values(first, 50 * trials, entropy, tick),
        ),
        Experiment(
            len(open_) * (len(unknown.EPSILONS) * len(unknown.KS) + len(unknown.CURVE)),
            0.5,
            lambda tick: unknown.unknown_domain(open_, trials, entropy, tick),
        ),
        Experiment(
            2 * noises * len(coverage.KS),
            1.5,
            lambda tick: coverage.interval_coverage(10 * trials, entropy, tick),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the report, say where it is."""
    reader = argparse.ArgumentParser(
        prog="python examples/reproduce",
        description="Measure the papers' figures and tables again with dpsql's own mechanisms; write one "
        "HTML page, and a CSV for each table beside it.",
    )
    reader.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="with files NAME_counts.parquet (columns item, n); without it data are made on the spot",
    )
    reader.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    reader.add_argument("--quick", action="store_true", help="a tenth of the runs: rough, in two minutes")
    reader.add_argument("--trials", type=int, metavar="N", help="runs behind a point [2000; 200 if quick]")
    reader.add_argument("--seed", type=int, default=1, help="of the noise and of made data")
    options = reader.parse_args(arguments)
    trials = options.trials or (200 if options.quick else 2000)
    if trials < 1:
        reader.error("--trials must be at least 1")
    if options.data is not None and not options.data.is_dir():
        reader.error(f"there is no folder {options.data}")
    sets = given(options.data) if options.data else []
    lacking = {False, True} - {one.unknown for one in sets}
    if lacking:
        sets += [one for one in made(options.seed, small=options.quick) if one.unknown in lacking]
    begin = time.monotonic()
    sections = _run(experiments(sets, trials, options.seed))
    minutes = (time.monotonic() - begin) / 60
    rows = [(one.name, len(one.counts), one.units, one.role) for one in sets]
    data = Table("data", ("data", "items", "units", "what it is"), rows, shown=True)
    command = f"--trials {trials} --seed {options.seed}" + (" --data FOLDER" if options.data else "")
    before = (
        f"Every point was measured with the mechanisms of dpsql {dpsql.__version__} itself: exact noise on "
        "integers, nothing reimplemented. The noise is seeded here, so that this page can be made again: "
        f"python examples/reproduce {command}. It took {minutes:.1f} minutes, with {trials} to {50 * trials} "
        "runs behind a point.",
        "Papers: Free Gap (Ding, Wang, Zhang, Kifer, PVLDB 13(3), 2019); the dissertation behind it (Ding); "
        "Top Stable (Carvalho, Wang, Gondara, Miao, UAI 2020). ✓ means that this run bears a claim out, ✗ "
        "that it does not.",
    )
    files = write(options.out, "The papers' figures, measured again with dpsql", before, data, sections)
    failing = [claim.words for section in sections for claim in section.claims if not claim.holds]
    print(f"{options.out}: {len(sections)} experiments, {len(files) - 1} tables in {files[-1].parent}")
    for words in failing:
        print(f"does not hold in this run: {words}")
    return 0


def _run(planned: Sequence[Experiment]) -> list[Section]:
    total = round(sum(e.steps * e.weight * 10 for e in planned))
    with click.progressbar(length=total, label="measuring", file=sys.stderr) as bar:
        return [e.run(lambda weight=e.weight: bar.update(round(weight * 10))) for e in planned]  # type: ignore[misc]
