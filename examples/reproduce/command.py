"""The command line: what to measure, on what, and where the report goes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import SimpleQueue
from pathlib import Path

import click

import dpsql
from dpsql.noise import SeededEntropy
from reproduce import (
    boards,
    coverage,
    error_reduction,
    hybrids,
    models,
    one_noise,
    over_threshold,
    significance,
    stable,
    sums,
    thresholds,
    unknown,
)
from reproduce.page import Section, Table, write
from reproduce.sets import DataSet, given, made

__all__ = ["main"]

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One section: how many ticks of the progress bar it takes, each how heavy, and its run."""

    steps: int
    weight: int
    run: Callable[[Tick], Section]


@dataclass(frozen=True, slots=True)
class Peer:
    """For sums: the folder that may have TPC-H's tables, and the Python that may have SmartNoise SQL."""

    data: Path | None = None
    python: str = sys.executable


def experiments(sets: Sequence[DataSet], trials: int, seed: int, peer: Peer) -> list[Experiment]:
    """Lay out all experiments; `trials` is the number of runs behind one point of the costliest ones."""
    # Of its own for each, so that none depends on what ran before it.
    entropies = iter(SeededEntropy(100 * seed + place) for place in range(100))
    known = [one for one in sets if not one.unknown]
    first, varied = known[:2], known[:1] + known[1:][-1:]
    open_ = [one for one in sets if one.unknown]
    noises = len(error_reduction.NOISES)
    ks, epsilons = len(error_reduction.KS), len(error_reduction.EPSILONS)
    both = len(first) * noises * ks, len(varied) * noises * epsilons
    return [
        Experiment(both[0], 43, partial(error_reduction.over_k, first, 5 * trials, next(entropies))),
        Experiment(
            both[1],
            83,
            partial(error_reduction.over_epsilon, varied, 3 * trials, next(entropies)),
        ),
        Experiment(
            len(known[:1]) * len(one_noise.EPSILONS) * len(one_noise.KS),
            60,
            partial(one_noise.one_noise, known[:1], trials, next(entropies)),
        ),
        Experiment(
            sum(both),
            13,
            partial(over_threshold.over_threshold, first, varied, 3 * trials, next(entropies)),
        ),
        Experiment(
            len(known) * len(thresholds.KS) * len(thresholds.NAMES),
            11,
            partial(thresholds.adaptivity, known, trials, next(entropies)),
        ),
        Experiment(
            len(first) * len(thresholds.KS),
            15,
            partial(hybrids.hybrids, first, trials, next(entropies)),
        ),
        Experiment(
            len(first) * len(significance.STRENGTHS),
            11,
            partial(significance.p_values, first, 50 * trials, next(entropies)),
        ),
        Experiment(
            len(open_) * (len(unknown.EPSILONS) * len(unknown.KS) + len(unknown.CURVE)),
            2,
            partial(unknown.unknown_domain, open_, trials, next(entropies)),
        ),
        Experiment(
            2 * noises * len(coverage.KS),
            8,
            partial(coverage.interval_coverage, 20 * trials, next(entropies)),
        ),
        Experiment(len(boards.ROWS), 6, partial(boards.boards, max(20, trials // 2), seed, next(entropies))),
        Experiment(
            max(20, trials // 20), 1, partial(models.guessed, max(20, trials // 20), seed, next(entropies))
        ),
        Experiment(
            len(stable.LISTS + stable.FAILURES),
            1,
            partial(stable.stable, max(1000, 10 * trials), next(entropies)),
        ),
        Experiment(
            1 + len(sums.ASKED + sums.OTHERS),
            20,
            partial(
                sums.beside_smartnoise,
                peer.data,
                sums.Runs(max(20, trials // 4), max(20, trials)),
                seed,
                peer.python,
            ),
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
        help="with files NAME_counts.parquet (columns item, n), and with TPC-H's lineitem.parquet and "
        "orders.parquet; what is not there is made on the spot",
    )
    reader.add_argument(
        "--smartnoise",
        default=sys.executable,
        metavar="PYTHON",
        help="an interpreter that has smartnoise-sql and duckdb, to compare with [this one]",
    )
    reader.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    reader.add_argument("--quick", action="store_true", help="a tenth of the runs: rough, in two minutes")
    reader.add_argument("--trials", type=int, metavar="N", help="runs behind a point [2000; 200 if quick]")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    reader.add_argument("--jobs", type=int, default=min(2, cores), metavar="N", help="processes [2]")
    reader.add_argument("--seed", type=int, default=1, help="of the noise and of made data")
    options = reader.parse_args(arguments)
    if options.out.is_dir() or not options.out.parent.is_dir():
        reader.error(f"cannot write {options.out}: name a file in a folder that exists")
    trials = (200 if options.quick else 2000) if options.trials is None else options.trials
    if min(trials, options.jobs) < 1:
        reader.error("--trials and --jobs must be at least 1")
    if options.data is not None and not options.data.is_dir():
        reader.error(f"there is no folder {options.data}")
    sets = given(options.data) if options.data else []
    lacking = {False, True} - {one.unknown for one in sets}
    if lacking:
        print("making data", file=sys.stderr)
        sets += [one for one in made(options.seed) if one.unknown in lacking]
    begin = time.monotonic()
    peer = Peer(options.data, options.smartnoise)
    sections = _run(sets, trials, options.seed, peer, options.jobs)
    minutes = (time.monotonic() - begin) / 60
    rows = [(one.name, len(one.counts), one.units, one.role) for one in sets]
    data = Table("data", ("data", "items", "units", "what it is"), rows, shown=True)
    flags = [f"--seed {options.seed}"]
    flags += ["--quick"] if options.quick else []
    flags += [f"--trials {options.trials}"] if options.trials is not None else []
    flags += ["--data FOLDER"] if options.data else []
    flags += ["--smartnoise PYTHON"] if options.smartnoise != sys.executable else []
    before = (
        f"Every point was measured with the mechanisms of dpsql {dpsql.__version__} itself: exact noise "
        "on integers, nothing reimplemented; only what it is compared with is not dpsql's, such as "
        "Limited Domain and SmartNoise. The noise is seeded here, but in the last section, so that this "
        f"page can be made again: python examples/reproduce {' '.join(flags)}. It took {minutes:.1f} "
        "minutes.",
        "Papers: Free Gap (Ding, Wang, Zhang, Kifer, PVLDB 13(3), 2019; figures 1 to 4); the "
        "dissertation behind it (Ding; figures 5-2 to 5-9); Top Stable (Carvalho, Wang, Gondara, Miao, "
        "UAI 2020); the sparse vector technique (Smith, lecture 12 of The Algorithmic Foundations of "
        "Adaptive Data Analysis). Each claim is tested on the figures it stands beside: ✓ means that "
        "this run bears it out, ✗ that it does not.",
    )
    files = write(options.out, "The papers' figures, measured again with dpsql", before, data, sections)
    failing = [claim.words for section in sections for claim in section.claims if not claim.holds]
    print(f"{options.out}: {len(sections)} experiments, {len(files) - 1} tables in {files[-1].parent}")
    for words in failing:
        print(f"does not hold in this run: {words}")
    return 0


def _run(sets: Sequence[DataSet], trials: int, seed: int, peer: Peer, jobs: int) -> list[Section]:
    """Run all experiments, the longest first, with a progress bar on the standard error."""
    planned = experiments(sets, trials, seed, peer)
    weights = [e.steps * e.weight for e in planned]
    order = sorted(range(len(planned)), key=lambda place: -weights[place])
    ticks: SimpleQueue[int] = SimpleQueue()
    sections: dict[int, Future[Section]] = {}
    with (
        click.progressbar(length=sum(weights), label="measuring", file=sys.stderr) as bar,
        ProcessPoolExecutor(jobs, initializer=_start, initargs=(ticks, sets, trials, seed, peer)) as pool,
    ):
        for place in order:
            sections[place] = pool.submit(_work, place)
        running = set(sections.values())
        while running:
            done, running = wait(running, timeout=0.2, return_when=FIRST_EXCEPTION)
            while not ticks.empty():
                bar.update(planned[ticks.get()].weight)
            for one in done:
                if one.exception():
                    pool.shutdown(wait=False, cancel_futures=True)
                    one.result()
        return [sections[place].result() for place in range(len(planned))]


_plan: list[tuple[SimpleQueue[int], list[Experiment]]] = []
"""What a process of the pool works on."""


def _start(ticks: SimpleQueue[int], sets: Sequence[DataSet], trials: int, seed: int, peer: Peer) -> None:
    _plan[:] = [(ticks, experiments(sets, trials, seed, peer))]


def _work(place: int) -> Section:
    ticks, planned = _plan[0]
    return planned[place].run(lambda: ticks.put(place))
