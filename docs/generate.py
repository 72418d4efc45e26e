"""Add generated pages to the documents: the guides of examples/, and references from dpsql's own tables."""

from __future__ import annotations

import ast
import csv
import inspect
import json
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, InclusionLevel

from dpsql import policy
from dpsql.analysis.output_columns import FREE_KINDS
from dpsql.analysis.released.quantiles import QUANTILES
from dpsql.analysis.released.released_calls import RULES, VALUES
from dpsql.analysis.scalar_functions import REFUSED
from dpsql.kernel.tree import listed_forms
from dpsql.language.options import MECHANISMS, NOISES, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]


BOUNDS = """\
`cost = { from = 0, to = 300 }` in `[tables.NAME.bounds]` is the interval to which an aggregate cuts each
value of the column. It promises nothing about the data: wrong bounds cost accuracy, never privacy.

* Both ends have the column's type, and `from` is less than `to`: whole numbers for integers, at most the
  digits of a DECIMAL, any finite number for a DOUBLE.
* DATE and TIMESTAMP columns have dates or timestamps as ends; a date as `to` of a TIMESTAMP is its whole day.
* `step`, for a DOUBLE alone, is the distance of the values to which it is rounded; else it follows from the
  ends.
* A BOOLEAN counts as 0 and 1. A column with a numeric domain has its ends, unless bounds are written.
* A public table has no bounds here: those of its values are known.
""".splitlines()

VIEWS = """\
`[views.NAME]` gives a SELECT a name that statements read like a table's:

```toml
[views.readers]
sql = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
```

* A statement that reads the view is analysed as if the SELECT were its first common table expression.
  Private rows stay private rows, with their privacy unit; a count is released with noise, and the statement
  pays for it. So a view hides nothing and grants nothing: write one for what is asked often.
* The SELECT has no privacy options, no `TOP` and no parameters: statements give them. It may name tables and
  other views, in any order, but not itself through others.
* A view has no table's name. In a statement, a common table expression of a view's name comes first, as it
  does before a table; `main.NAME` is always the view. What the view reads is not changed by the statement's
  own common table expressions.
* `SHOW TABLES` lists views, `DESCRIBE` shows the columns that a view has or would release, without a charge,
  and EXPLAIN names the views that a statement reads.
* Names and syntax are checked when the policy is read. What else is wrong in a view is said to the statement
  that reads it.
""".splitlines()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages before the navigation is built."""
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in (".md", ".sql", ".ipynb"):
            files.append(
                File.generated(
                    config,
                    f"guides/{path.name}",
                    content=_highlighted(path.read_text("utf-8")),
                    inclusion=InclusionLevel.INCLUDED if path.suffix == ".md" else InclusionLevel.NOT_IN_NAV,
                )
            )
    pages = {
        "changelog.md": (ROOT / "CHANGELOG.md").read_text("utf-8"),
        "reference/sql.md": _sql(),
        "reference/policy.md": _policy(),
        "reference/checker_rules.md": _rules(),
        "reference/benchmarks.md": _benchmarks(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


_RULE = re.compile(r"\*[A-Z][^*\n]*[.:]\*|\b(Proof|Lemma)\b")
"""What the docstring of a rule of the checker has."""


def _rules() -> str:
    """Return the rules of the kernel's checker with their proofs: docstrings of its modules."""
    kernel = ROOT / "dpsql" / "kernel"
    nodes = sorted((kernel / "tree").glob("*.py"))
    parts = [
        "# Rules of the checker",
        "The kernel certifies counting queries. These are the rules by which it does, with their "
        "proofs, as they stand in `dpsql/kernel`: first of the nodes that are written as several SELECTs, "
        "each of which bounds what one unit adds (`tree`), then of all others (`check`). "
        "`EXPLAIN (FORMAT CERTIFICATE)` names those that it used.",
    ]
    for path in (*nodes, *sorted((kernel / "check").glob("*.py"))):
        tree = ast.parse(path.read_text("utf-8"))
        found = [
            (node.name, ast.get_docstring(node) or "")
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        ]
        rules = [f"**`{name}`**\n\n{text}" for name, text in found if _RULE.search(text)]
        if path.stem != "__init__" and (rules or _RULE.search(ast.get_docstring(tree) or "")):
            parts += [f"## `{path.stem}`", ast.get_docstring(tree) or "", *rules]
    return "\n\n".join(parts) + "\n"


def _benchmarks() -> str:
    """Return the page of the run of the benchmarks that is kept in docs/benchmarks.json."""
    run = json.loads((ROOT / "docs" / "benchmarks.json").read_text("utf-8"))[-1]
    rows = {"S": "1 million rows", "M": "10 million rows", "L": "100 million rows"}[run["size"]]
    lines = [
        "# Benchmarks",
        "",
        f"Size {run['size']} ({rows}), run at {run['when']} with",
        ", ".join(f"{name} {value}" for name, value in run["machine"].items()) + ".",
        "",
        "Each line has dpsql beside a floor: mostly DuckDB's own exact query, `COUNT(DISTINCT unit)` of the",
        "same groups. Both take turns in one process. *Work* is the median of the pairwise ratios of",
        "processor time, which other programs disturb least: below 1 the private answer takes less than",
        "the exact query that it replaces. Every statement is a fresh one: nothing is answered from",
        "a stored release.",
        "",
        "To repeat it: `python -m tests.benchmarks --size M --json docs/benchmarks.json` in a clone of the",
        "repository adds a run to the file that this page is made of; `--against FILE` compares with an",
        "earlier one.",
    ]
    for group, found in groupby(run["figures"], key=lambda figure: figure["group"]):
        lines += ["", f"## {group[0].upper()}{group[1:]}", ""]
        lines += ["| | dpsql | floor | work | goal | |", "|---|---:|---:|---:|---|---|"]
        lines += [_figure(figure) for figure in found]
    return "\n".join([*lines, "", *_SLOWER]) + "\n"


_SLOWER = (
    "## What takes longer, and why",
    "",
    "* **Numbers of rows beside numbers of units, where most units have more rows than are counted,** take",
    "  six times the exact count, and so do those that are compared with a threshold: what counts of a unit",
    "  in a group is then a whole number, for which its rows are grouped. Else rows are weighed one by one,",
    "  as those of sums and averages are, which takes less than the exact count.",
    "* **From 1 to 100 million rows,** with ten rows a unit, processor time grows by these factors of rows;",
    "    reading a column alone takes .98:",
    "",
    "    | | dpsql | without a statement's fixed cost | DuckDB's own count |",
    "    |---|---:|---:|---:|",
    "    | units of 10 groups | 2.0 | 3.0 | 2.6 |",
    "    | all units together | 1.1 | 1.6 | 3.0 |",
    "    | the 10 largest of 10,000 to 200,000 groups | 1.4 | 1.8 | 3.3 |",
    "    | `SUM` of 10 groups, no unit with more rows than count | .5 | .7 | |",
    "    | `SUM` of 10 groups, `contribution_bounds => AUTO`, asked again | .3 | .3 | |",
    "",
    "    Units make it, not rows: with ids below 100,000, a million and ten million, the same ten million",
    "    rows take 76, 172 and 528 ms beside their reading, since a bit is then in the processor's second,",
    "    third or no cache. DuckDB's table of units is larger than the bits: the answer of 10 groups",
    "    takes .40 of its time at a million rows, and .30 at a hundred million.",
    "",
    "* **A small statement** whose text was not seen before takes 8 ms of processor time beside the",
    "  ledger's two durable writes; with a text that was seen before it takes 4. What takes the time is",
    "  parsing (1), taking apart into releases (1), the counting query (1), its certificate (1, if no",
    "  earlier statement differs in compared constants alone), the engine (2, more than half of it",
    "  DuckDB's own), noise and the answer (2).",
    "* **A process's first answer** takes 1.2 (command line) to 1.5 times (a program) the import of the",
    "  packages that it needs, in processor time: two thirds of the rest are 290 modules of its own, a",
    "  third is two databases and the statement itself.",
    "* **PostgreSQL and Spark** count all groups. Counting rows first, in their own SQL, would take .86",
    "  to .98 (PostgreSQL 15) and .6 to .7 (Spark 4) of their own count of five million rows and 50,000",
    "  groups (`python -m tests.benchmarks --only engine_top`). It needs two queries that read the same",
    "  rows, with noise drawn between them, and a server's table may change meanwhile, so it is not done",
    "  there.",
)


def _figure(figure: dict[str, Any]) -> str:
    def number(name: str, unit: str = "") -> str:
        value = figure[name]
        return "" if value is None else f"{value:,.{2 if value < 100 else 0}f} {unit}".strip()

    unit, met = figure["unit"], {None: "", True: "met", False: "**not met**"}[figure["met"]]
    numbers = f"{number('ours', unit)} | {number('floor', unit)} | {number('work')}"
    return f"| {_cell(figure['what'])} | {numbers} | {_cell(figure['goal'])} | {met} |"


def _highlighted(text: str) -> str:
    """Drop what only the tests read behind a fence's language (`sql refused`)."""
    return re.sub(r"^(```\w+) \w+$", r"\1", text, flags=re.MULTILINE)


def _sql() -> str:
    lines = [
        "# SQL reference",
        "",
        "Clauses and selections are described in [asking questions](../guides/for_analysts.md). This page is",
        "generated from the tables that the parser and the analysis read.",
        "",
        "## Options",
        "",
        "`SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (name = value, ..)`, in a release, or once in the",
        "outermost SELECT for all releases of the statement. Without it the defaults of the policy hold.",
        "`SET dp_epsilon = 0.5` sets a default for the connection, and so do `dp_delta`, `dp_measure` and",
        "`dp_confidence`. `SET dp_error = 50` sets the error of statements that name neither epsilon nor an",
        "error: of a sum it is in multiples of the largest value of a row. Where no error is predicted, the",
        "default epsilon holds. `SET dp_epsilon` ends it.",
        "",
        "| option | value |",
        "|---|---|",
        *(f"| `{name}` | {words} |" for name, words in OPTIONS.items()),
        "",
        f"Mechanisms: {', '.join(f'`{m}`' for m in MECHANISMS)}.",
        f"Noises: {', '.join(f'`{n}`' for n in NOISES)}.",
        "",
        "## Aggregates that are released",
        "",
        "Each may have FILTER, and a difference of two counts is released as one number.",
        "`SUM(CASE WHEN p THEN 1 ELSE 0 END)`, `SUM(IF(p, 1, 0))` and `SUM(p::INT)` are counts of rows, and",
        "`AVG` of the same is a ratio of two counts. [Aggregates](aggregates.md) says what each means, what",
        "bounds it needs and what its error is.",
        "",
        f"Counts: {_names(RULES)}.",
        f"Sums, averages and variances: {_names(VALUES)}.",
        f"Quantiles and extremes: {_names(QUANTILES)}.",
        f"Free beside them: {', '.join(f'`{name}`' for name in FREE_KINDS)},",
        "and whatever SQL computes from released rows.",
        "",
        "## Functions over private data",
        "",
        "Argument types in the order of the arguments; *literal* marks a constant. A function that is not",
        "listed is refused over private data.",
        "",
        "| function | accepted arguments |",
        "|---|---|",
    ]
    for name, forms in sorted(listed_forms().items()):
        shown = dict.fromkeys(" ".join(_argument(a) for a in form.arguments) for form in forms)
        lines.append(f"| `{_cell(name)}` | {'; '.join(f'`{_cell(s)}`' if s else 'none' for s in shown)} |")
    lines += [
        "",
        "## Spellings of other dialects",
        "",
        "`PART` is the name of a part of a date, `i` the interval, and a format is a constant in the codes",
        "of the function that is named. A form that several dialects read in different ways has the meaning",
        "of the dialect that `OPTIONS (dialect = MYSQL)`, `SET dp_dialect` or the policy's `[defaults]`",
        "says; by default DuckDB's, and what it does not have is refused. `MONTHS` are whole months",
        "between two times: one less where the day of the later one is not reached. `dialect` is",
        "about these forms alone: operators are DuckDB's. Besides: `WITH ANONYMIZATION`, the option",
        "`kappa`, `SAFE_CAST`,",
        "`ANON_COUNT(* CLAMPED BETWEEN 0 AND 5)`, backticks, `main.visits`.",
        "",
        "| written | read as | in |",
        "|---|---|---|",
        *(f"| `{_call(line['written'])}` | `{line['read']}` | {line['dialects']} |" for line in _spellings()),
        "",
        "## Forms that are computed",
        "",
        "* `WIDTH_BUCKET(x, lo, hi, n)`: 0 below lo, n + 1 from hi on, downwards if lo > hi.",
        "  Exact for whole numbers and DECIMAL; of DOUBLE `floor(n * (x - lo) / (hi - lo)) + 1`, in order.",
        "* `MAKE_TIMESTAMP(microseconds)`, `EPOCH_MS(milliseconds)`, `TO_TIMESTAMP(seconds)`, and",
        "  `FROM_UNIXTIME(seconds)`, in the policy's time zone: NULL where there is no such time.",
        "* `EXTRACT(YEAR | MONTH | DAY FROM AGE(later, earlier))`; `AGE(x)` is up to the beginning of today.",
        "* `EXTRACT(DAY FROM AVG(a - b))` is the average of the days of each, without its fraction.",
        "* `generate_series`, `range`, `GENERATE_ARRAY`, `GENERATE_DATE_ARRAY` of constants in FROM, with at",
        "  most 100,000 rows, are public relations.",
        "* `(SELECT e.value FROM UNNEST(items) AS e WHERE e.key = 'a')` is the first item of a list of it",
        "  that fits, NULL without one; `EXISTS (SELECT 1 FROM UNNEST(items) AS e WHERE ..)` asks for one.",
        "* `(SELECT x FROM public_table ORDER BY y LIMIT 1)` is a constant, read before anything is charged.",
        "* A whole number as a condition is whether it is not 0.",
    ]
    lines += ["", "## Functions refused with a reason", "", "| function | reason |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(REFUSED.items())]
    return "\n".join(lines) + "\n"


def _names(functions: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in functions)


def _spellings() -> list[dict[str, str]]:
    path = ROOT / "dpsql" / "language" / "dialects.csv"
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def _call(text: str) -> str:
    return text.replace(" ", ", ")


def _argument(text: str) -> str:
    if text.startswith("#"):
        return "literal " + text[1:]
    return f"'{text[1:]}'" if text.startswith("=") else text


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _policy() -> str:
    lines = [
        "# Policy reference",
        "",
        "The keys of `dpsql.toml`, generated from the table that the reader of the policy checks against. An",
        "unknown key is an error. [Policy and checks](../guides/for_owners.md) explains how to choose.",
        "",
        "Editors that read JSON Schema complete and check these keys: the first line of a policy that",
        "`dpsql init` writes, `#:schema file:///..`, names the schema that comes with dpsql,",
        "`dpsql/policy/dpsql.schema.json`.",
    ]
    for section, keys in policy.KEYS.items():
        lines += ["", f"## `{section}`", "", "| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {key.value} | {key.default} | {key.meaning} |" for name, key in keys.items()]
    lines += ["", "## Views", "", *VIEWS, "", "## Domains", ""]
    for kind in (
        policy.ValuesDomain,
        policy.RangeDomain,
        policy.TableDomain,
        policy.BooleanDomain,
        policy.EnumDomain,
    ):
        lines.append(f"* `{kind.__name__}`: {(inspect.getdoc(kind) or '').splitlines()[0]}")
    lines += ["", "## Bounds", "", *BOUNDS]
    return "\n".join(lines) + "\n"
