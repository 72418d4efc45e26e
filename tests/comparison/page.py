"""Writes docs/pages/comparison.md from results.json; no number of it is typed by hand."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.comparison.data_sets import DATA_SETS
from tests.comparison.environments import PACKAGES, SYSTEMS
from tests.comparison.questions import QUESTIONS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pages" / "comparison.md"
RESULTS = Path(__file__).with_name("results.json")
SYSTEMS_FOLDER = Path(__file__).with_name("systems")
MUCH = 0.8
"""A peer is called better where its error is less than this part of dpsql's, with the same bounds."""

NAMES = {
    "with_dpsql": "dpsql, bounds by hand",
    "with_dpsql_found": "dpsql, no bounds",
    "with_opendp": "OpenDP",
    "with_smartnoise": "SmartNoise SQL",
    "with_diffprivlib": "diffprivlib",
    "with_pipelinedp": "PipelineDP",
    "with_tumult": "Tumult Analytics",
}
WORDS = {
    "with_dpsql": (
        "SQL, refused where it is not proved",
        "all rows of a unit, in every table",
        "none: found privately, or of the policy or the statement; values beyond them are told",
        "declared in the policy, or delta",
        "durable, for all analysts and processes; charged before data are read",
        "counts and sums are whole numbers, with exactly sampled noise; a checker certifies each query",
    ),
    "with_opendp": (
        "Python: Polars queries, or transformations and measurements chained by hand",
        "rows of a unit (a limit by hand), or an identifier's rows",
        "rows and groups of a unit, values, the largest size of the table",
        "given by hand, or delta",
        "a context in memory, which the caller keeps",
        "stability of each step is tracked in Rust; exact discrete noise; what is not reviewed is behind a "
        "flag",
    ),
    "with_smartnoise": (
        "SQL, a part of it",
        "rows of a unit (a limit by hand)",
        "rows of a unit, values",
        "found in the data, censored at delta unless that is switched off",
        "an odometer in memory, which the caller keeps",
        "the query is rewritten, a database computes it; noise by OpenDP, on 64-bit sums",
    ),
    "with_diffprivlib": (
        "numpy functions, and mechanisms to be used by hand",
        "one value of an array; units with more are the caller's to bound",
        "values; what is not given is taken from the data, with a warning",
        "the caller's",
        "an accountant in memory",
        "noise in floating point, with some guards",
    ),
    "with_pipelinedp": (
        "Python pipelines; local, Spark, Beam",
        "rows of a unit (a limit by hand)",
        "groups of a unit, its rows in a group, values",
        "public, or selected with delta",
        "an accountant of one pipeline",
        "noise by Google's library for differential privacy, which guards floating point",
    ),
    "with_tumult": (
        "Python queries on Spark tables, several of them",
        "all rows with an identifier, in several tables",
        "rows or groups of a unit, values",
        "given by hand, or found with delta",
        "a session in memory",
        "stability of each step is tracked; exact discrete and guarded continuous noise",
    ),
}
HEADS = ("asked by", "unit of privacy", "bounds needed", "groups", "budget", "what it rests on")


def write_page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    lines = [
        "# Beside other systems",
        "",
        "Ten questions to five data sets, asked of dpsql and of other systems at the same epsilon, for the "
        "same unit and with the same",
        "bounds, as their documents say how. This page is made by `python -m tests.comparison`, which "
        "installs each system in an",
        "environment of its own, and no number of it is typed by hand. Run it again before you believe it: "
        "it is written by the",
        "authors of one of the systems.",
        "",
        *_versions(results),
        "",
        *_data(results),
        "",
        *_errors(results),
        "",
        *_coverage(results),
        "",
        *_times(results),
        "",
        *_better(results),
        "",
        *_protection(),
        "",
        *_lines_by_hand(),
    ]
    return "\n".join(lines) + "\n"


def _versions(results: Mapping[str, Any]) -> Iterator[str]:
    yield "## What was compared"
    yield ""
    yield "| system | version | measured | answers to a question | packages |"
    yield "|---|---|---|---|---|"
    for system in SYSTEMS:
        found = results["systems"].get(system, {})
        version = found.get("version") or f"does not install: {found.get('missing', 'not measured')}"
        packages = ", ".join(f"`{p}`" for p in PACKAGES.get(system, ["this checkout"]))
        repeats = [
            f["repeats"] for d in found.get("figures", {}).values() for f in d.values() if "repeats" in f
        ]
        often = f"{min(repeats)} to {max(repeats)}" if repeats else "-"
        yield f"| {NAMES[system]} | {version} | {found.get('date', '-')} | {often} | {packages} |"
    yield ""
    yield (
        f"On {results['machine']}, with other work on them: times are those of the processors, all "
        f"processes together."
    )


def _data(results: Mapping[str, Any]) -> Iterator[str]:
    data = results["data"]
    first = next(iter(data.values()))
    yield "## Data and bounds"
    yield ""
    yield (
        f"Epsilon is {first['epsilon']:g} for each question; delta, where keys are not declared, "
        f"{first['delta']:g}. Bounds by hand are "
        "favourable: the least of 1, 2, 5, 10, 20, .. that covers 99 in 100 units (or values) of the data "
        "themselves. An owner who "
        "may not look at the data knows them less well; `dpsql, no bounds` is told none, nor which values "
        "are possible."
    )
    yield ""
    yield (
        "| data | a row is | from | unit | rows | units | groups | many groups | rows of a unit | groups "
        "of a unit | many groups of a unit | value |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for name, said in data.items():
        each = DATA_SETS[name]
        yield (
            f"| {name} | {each.about} | {each.source} | {each.unit} | {said['size']['rows']:,} | "
            f"{said['size']['units']:,} "
            f"| {said['kinds']} ({each.kind}) | {said['items']} ({each.item}) | {said['rows']} | "
            f"{said['kinds_of_unit']} "
            f"| {said['items_of_unit']} | {each.amount}, 0 to {said['high']:,} |"
        )


def _errors(results: Mapping[str, Any]) -> Iterator[str]:
    yield "## Errors"
    yield ""
    yield (
        "The root of the mean squared difference from the **exact answer on the raw data**, in percent of "
        "the size of the exact numbers "
        "(their mean). So what a bound cuts is an error, as it is for who reads the answer. Of a single "
        "number and few "
        "answers it is itself known badly: do not read more than a factor of two into it. The best of a "
        "line is bold. A dash: the system has no such question, or "
        "refused it."
    )
    for name in results["data"]:
        yield ""
        yield f"### {name}: {DATA_SETS[name].about}"
        yield ""
        yield "| question | " + " | ".join(NAMES[s] for s in _systems(results)) + " |"
        yield "|---|" + "---|" * len(_systems(results))
        for question, asked in QUESTIONS.items():
            errors = [_figure(results, s, name, question).get("error", math.nan) for s in _systems(results)]
            best = min((e for e in errors if not math.isnan(e)), default=math.nan)
            cells = []
            for system, error in zip(_systems(results), errors, strict=True):
                right = _figure(results, system, name, question).get("right")
                text = "-" if math.isnan(error) else _percent(error)
                if not _figure(results, system, name, question):
                    text = "not measured"
                text = f"**{text}**" if error == best else text
                cells.append(text + (f" ({right:.1f} right)" if right is not None else ""))
            yield f"| {asked.words} | {' | '.join(cells)} |"


def _coverage(results: Mapping[str, Any]) -> Iterator[str]:
    yield "## Do intervals cover the exact answer?"
    yield ""
    yield (
        "How many 95% intervals contain the exact answer on the raw data, on average over the questions "
        "that have some; their number is in "
        "brackets. The intervals of other systems are about their noise alone, and say so; the exact "
        "answer is what a reader "
        "takes them for. dpsql's include what its bounds leave out where it has measured that; where it has "
        "not, such as values beyond bounds that somebody wrote, the answer says so in words, and such "
        "intervals miss here like all others. (After `dpsql bounds` they include it; that is not measured "
        "here.) The questions where bounds cut nothing or little (numbers of units) are apart."
    )
    counted = ("units", "units_by_kind", "top", "undeclared")
    for words, chosen in (
        ("numbers of units", counted),
        ("rows, sums, averages", [q for q in QUESTIONS if q not in counted]),
    ):
        yield ""
        yield f"| {words} | " + " | ".join(results["data"]) + " |"
        yield "|---|" + "---|" * len(results["data"])
        for system in _systems(results):
            cells = []
            for name in results["data"]:
                found = [f for q in chosen if "covered" in (f := _figure(results, system, name, q))]
                share = sum(f["covered"] for f in found) / len(found) if found else math.nan
                cells.append(f"{share:.0%} ({len(found)})" if found else "none")
            yield f"| {NAMES[system]} | {' | '.join(cells)} |"


def _times(results: Mapping[str, Any]) -> Iterator[str]:
    yield "## Time of the processors"
    yield ""
    yield (
        "Milliseconds for one answer, the mean over all questions that the system answers; the data are "
        "loaded before. dpsql's are "
        "with a ledger that is written for each answer, and without counts that were kept. Spark, under "
        "Tumult Analytics, is made for "
        "data that are larger by far."
    )
    yield ""
    yield "| system | " + " | ".join(results["data"]) + " |"
    yield "|---|" + "---|" * len(results["data"])
    for system in _systems(results):
        cells = []
        for name in results["data"]:
            took = _seconds(results, system, name)
            cells.append("not measured" if math.isnan(took) else f"{1000 * took:,.0f}")
        yield f"| {NAMES[system]} | {' | '.join(cells)} |"


def _better(results: Mapping[str, Any]) -> Iterator[str]:
    """Say where others have clearly smaller errors with the same bounds, and what else they do better."""
    yield "## Where another system is better"
    yield ""
    yield (
        f"By these measurements, with the same bounds (an error below {MUCH:g} of dpsql's, and by more than "
        "chance does with as many answers):"
    )
    yield ""
    found = []
    for question, asked in QUESTIONS.items():
        for name in results["data"]:
            ours = _figure(results, "with_dpsql", name, question)
            theirs = [
                (figure["error"], NAMES[system])
                for system in _systems(results)[2:]
                if "error" in (figure := _figure(results, system, name, question))
                and "error" in ours
                and _is_better(figure, ours, _numbers(results, name, question))
            ]
            if theirs:
                error, system = min(theirs)
                words = f"{system} {_percent(error)}, dpsql {_percent(ours['error'])}"
                found.append(f"* {asked.words}, {name}: {words}.")
    for system in _systems(results)[2:]:
        both = {
            name: (_seconds(results, system, name), _seconds(results, "with_dpsql", name))
            for name in results["data"]
        }
        times = ", ".join(
            f"{1000 * took:,.0f} and {1000 * own:,.0f} ms for {name}"
            for name, (took, own) in both.items()
            if took < own
        )
        if times:
            found.append(f"* {NAMES[system]} takes less of the processors than dpsql: {times}.")
    own = count_lines(SYSTEMS_FOLDER / "with_dpsql.py")
    found += [
        f"* {NAMES[system]} was asked in {written} lines, dpsql in {own}, its policy included."
        for system in _systems(results)[2:]
        if (written := count_lines(SYSTEMS_FOLDER / f"{system}.py")) < own
    ]
    yield from found or ["* nowhere."]
    yield ""
    yield "By what they are:"
    yield ""
    yield from (
        "* **PipelineDP** and **Tumult Analytics** compute on a cluster, limits of a unit's rows included, "
        "and PipelineDP on Beam too. dpsql",
        "  counts on PostgreSQL or Spark, but needs SQL tables there, and adds its noise on one machine.",
        "* **OpenDP** has far more parts: transformations, mechanisms and measures that can be put "
        "together for what no SQL says, also",
        "  in R and Rust, with proofs that are reviewed in public. dpsql's are its authors'.",
        "* **diffprivlib** trains models (regressions, forests, clusters, components). dpsql does nothing "
        "of that kind.",
        "* **SmartNoise SQL** needs no group keys to be declared, and has databases that dpsql "
        "has not (MySQL, SQL Server, BigQuery, Presto).",
        "* Without declared keys all others take a limit of the groups of a unit as it is given; `dpsql, "
        "no bounds` refuses the question",
        "  until it is told one.",
    )


def _is_better(theirs: Mapping[str, Any], ours: Mapping[str, Any], numbers: int) -> bool:
    """Return whether an error is much smaller, beyond chance (four deviations of ten numbers at least)."""
    if not theirs["error"] < MUCH * ours["error"]:
        return False
    spread = math.sqrt(sum(1 / (2 * numbers * each["repeats"]) for each in (theirs, ours)))
    enough = numbers * min(theirs["repeats"], ours["repeats"]) >= 10 and theirs["error"] > 0
    return enough and math.log(ours["error"] / theirs["error"]) > 4 * spread


def _numbers(results: Mapping[str, Any], name: str, question: str) -> int:
    """Return how many numbers an answer to a question has."""
    said = results["data"][name]
    known = {"units_by_kind": said["kinds"], "rows_by_kind": said["kinds"], "total_by_kind": said["kinds"]}
    return int((known | {"top": 5, "undeclared": said["items"]}).get(question, 1))


def _seconds(results: Mapping[str, Any], system: str, name: str) -> float:
    """Return the mean time of an answer, or nan where none was measured."""
    took = [f["seconds"] for q in QUESTIONS if "seconds" in (f := _figure(results, system, name, q))]
    return sum(took) / len(took) if took else math.nan


def _protection() -> Iterator[str]:
    yield "## What each protects and assumes"
    yield ""
    yield "| | " + " | ".join(NAMES[s] if s != "with_dpsql" else "dpsql" for s in WORDS) + " |"
    yield "|---|" + "---|" * len(WORDS)
    for place, head in enumerate(HEADS):
        yield f"| {head} | " + " | ".join(words[place] for words in WORDS.values()) + " |"


def _lines_by_hand() -> Iterator[str]:
    yield "## What had to be written by hand"
    yield ""
    yield (
        "Lines of code of the modules in `tests/comparison/systems` that ask the ten questions, without "
        "imports, comments, docstrings "
        "and blank lines; dpsql's has its policy and SQL in it. What else was needed is in the code: "
        "OpenDP's limit of groups keeps one group "
        "less than it says (`findings/opendp_truncate_num_groups_keeps_one_less.sh`), its selection of "
        "the largest "
        "groups and all of diffprivlib are noise on counts that were made by hand."
    )
    yield ""
    yield "| system | lines |"
    yield "|---|---|"
    for system in SYSTEMS:
        if system != "with_dpsql_found":
            yield f"| {NAMES[system]} | {count_lines(SYSTEMS_FOLDER / f'{system}.py')} |"


def count_lines(file: Path) -> int:
    """Return the lines of a module that somebody had to write to ask."""
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        docstring = getattr(node, "body", None)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif (
            isinstance(node, (ast.Module, ast.FunctionDef))
            and docstring
            and ast.get_docstring(node) is not None
        ):
            left_out |= set(range(docstring[0].lineno, (docstring[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and n not in left_out for n, line in lines
    )


def _systems(results: Mapping[str, Any]) -> list[str]:
    return [s for s in SYSTEMS if "figures" in results["systems"].get(s, {})]


def _figure(results: Mapping[str, Any], system: str, data: str, question: str) -> dict[str, Any]:
    found = results["systems"].get(system, {}).get("figures", {}).get(data, {}).get(question, {})
    return dict(found)


def _percent(error: float) -> str:
    return f"{100 * error:.3g}%"
