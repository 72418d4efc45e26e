"""`dpsql demo`: a guided tour on shipped data, with no set-up."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.narrate import ExitCode, exit_code
from dpsql.errors import Error, OperationalError, QueryRefused
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.cli.output import AnswerOutput
    from dpsql.session import Session
    from dpsql.session_api import AnalystSession


POLICY = "clinic.toml"


@dataclass(frozen=True, slots=True)
class Stop:
    """One step of the tour: the question in words, the statement, and remarks on its answer."""

    words: str
    statement: str
    seen: str = ""
    bounds: tuple[str, ...] = ()
    """What the owner's command `dpsql bounds` finds, in place of a statement."""

    @property
    def typed(self) -> str:
        """What a visitor would type."""
        return f"$ {self.statement}" if self.bounds else f"{self.statement};"


TOUR = (
    Stop(
        """\
A synthetic clinic: 400,000 visits of 50,000 patients. What is protected is a
patient: whether all visits of any one of them are in the data or not must
hardly change what you see.

Which diagnoses do most patients have, and how many patients is that?""",
        """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
       d.diagnosis, COUNT(DISTINCT v.patient_id) AS patients
FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code
GROUP BY d.diagnosis
TOP 5""",
        """\
Beside a count stands where the true one is (95%): as ± if that reaches as far
up as down, else from where to where. The gap to the next group came free with
the choice. The last line says what the answer cost: an epsilon of 1, out of
the 10 that the policy gives.""",
    ),
    Stop(
        "How many visits were there?",
        "SELECT COUNT(*) AS visits FROM visits",
        """\
A patient may have any number of visits, so noise needs a bound on how many
count. A part of epsilon found one, and the rest answers with it. In these
synthetic data we may look: 399,767 visits have a patient.""",
    ),
    Stop(
        """\
The owner can let bounds be found once, for all later statements over all
visits. All analysts are told them, so everybody pays for them. How many visits
do patients have, and what do they cost together?""",
        "dpsql bounds visits visits.cost",
        """\
These numbers are noisy, too: a patient is in one of them. They say how much a
bound leaves out, and which one errs least.""",
        ("visits", "visits.cost"),
    ),
    Stop(
        "The same question again:",
        "SELECT COUNT(*) AS visits FROM visits",
        """\
No part of epsilon goes into a search any more. The range is about what was
asked: it covers the noise, and the visits that are left out. They can only
add, so it reaches farther up than down.""",
    ),
    Stop(
        """\
Which clinics have the highest revenue, and what does a visit cost there on
average?""",
        """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
       clinic, SUM(cost) AS revenue, AVG(cost) AS average
FROM visits
GROUP BY clinic
ORDER BY revenue DESC LIMIT 5""",
        """\
What is left out is given back to the clinics by their shares, and the ranges
have it twice over. In the data the first three have 1,570,762, 1,564,025 and
1,453,517, and averages between 51 and 52.""",
    ),
    Stop(
        "And the median of the costs? It is chosen among public values, and is nobody's cost.",
        """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
       MEDIAN(cost) AS median
FROM visits""",
    ),
    Stop(
        "At which clinics were at least 4,000 patients?",
        """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
       clinic, COUNT(DISTINCT patient_id) AS patients
FROM visits
GROUP BY clinic
ABOVE THRESHOLD 4000""",
        """\
The counts of all 20 clinics got one noise. Those are shown whose noisy count
reaches the threshold.""",
    ),
    Stop(
        """\
In which month did most patients come with a respiratory illness? How many is
not asked, so all of epsilon goes into the choice.""",
        """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
       date_trunc('month', v.visit_date) AS month
FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code
WHERE d.chapter = 'Respiratory'
GROUP BY month
ARGMAX BY COUNT(DISTINCT v.patient_id)""",
        "The gap says how far ahead of the next month it is.",
    ),
    Stop(
        """\
What would a statement cost, and how precise would its answer be? EXPLAIN is
free: it reads nothing private.""",
        """\
EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)
       region, COUNT(DISTINCT patient_id) AS patients
FROM patients
GROUP BY region
ORDER BY patients DESC LIMIT 3""",
    ),
    Stop(
        "What is left?",
        "SHOW PRIVACY BUDGET",
        """\
A charge is on disk before its answer is shown. A statement asked again is
answered as before, and costs nothing.""",
    ),
    Stop(
        "And the notes of single patients?",
        "SELECT patient_id, note FROM visits WHERE diagnosis_code = 'F32'",
        """\
It was refused before any row was read, and cost nothing: a row is one
patient's, and no noise makes it private. dpsql answers what it can prove;
of all else it says where it is wrong, and what to write instead.""",
    ),
)
"""The steps, the main question first."""


def run_tour(session: AnalystSession, out: AnswerOutput) -> ExitCode:
    """Run the steps in order; on a terminal, wait for Enter between them (`q` ends the tour)."""
    waits = sys.stdin.isatty() and sys.stdout.isatty()
    for i, stop in enumerate(TOUR):
        if i and waits and not _ask_to_go_on():
            break
        narrate.say(f"{chr(10) if i else ''}[{i + 1} of {len(TOUR)}]\n{stop.words}\n")
        narrate.say(f"{stop.typed}\n")
        try:
            if stop.bounds:
                _run_bounds(session, stop.bounds, out)
            else:
                write_result(session, out, session.run(stop.statement))
        except Error as problem:
            narrate.error(problem)
            if not isinstance(problem, QueryRefused):
                return exit_code(problem)
        if stop.seen:
            narrate.say("\n" + stop.seen)
    return ExitCode.OK


def _run_bounds(session: AnalystSession, names: Sequence[str], out: AnswerOutput) -> None:
    from dpsql.cli.bounds import find_bounds

    out.write_text("\n" if out.apart else "")
    # The data of the demo are in this process.
    find_bounds(cast("Session", session).database, names, out, yes=True)


def _ask_to_go_on() -> bool:
    sys.stderr.write("\nEnter goes on, q leaves: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() not in ("q", "quit", "exit")


def copy_data() -> Path:
    """Copy the shipped data into a new temporary folder and return it.

    A copy, since the budget is spent in a ledger beside the policy, and each demo starts with a full one.
    """
    # The data is beside this file when installed, at the project's top in its source tree.
    here = Path(__file__).resolve()
    places = (here.parent / "demo_data", here.parents[2] / "data")
    shipped = next((place for place in places if (place / POLICY).is_file()), None)
    if shipped is None:
        raise OperationalError("the demo's data is missing from this installation: reinstall dpsql")
    folder = Path(tempfile.mkdtemp(prefix="dpsql-demo-"))
    for file in sorted(shipped.iterdir()):
        if file.suffix in (".toml", ".parquet", ".csv", ".md"):
            shutil.copyfile(file, folder / file.name)
    policy = folder / POLICY
    text = policy.read_text(encoding="utf-8")
    # Nothing is written outside of the folder, which may be deleted at any time.
    policy.write_text(text.replace("[budget]\n", "[budget]\nhigh_water = false\n", 1), encoding="utf-8")
    return folder
