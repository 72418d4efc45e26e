"""Detect counterexamples to differential privacy: tests whether a mechanism satisfies its claim.

`detect` takes any mechanism that runs in batches and returns a `Verdict` with p-values, the event that
distinguishes best and a lower bound on the true epsilon. `campaign` audits the `CATALOGUE`: all mechanisms of
dpsql, and subjects known to be private or not.

=====================  =================================================================
``detector``           the search for a counterexample, and the test on fresh runs
``sequential_halving`` the search over inputs and arguments
``inputs``             adjacent inputs
``outputs``            the outputs of many runs, as labels and numbers
``features``           labels and numbers of an output that events are conditions on
``discretization``     features of two samples as small integers
``events``             events and their conditions
``event_space``        all events that two samples are searched for
``event_selection``    selection of the event that best distinguishes two inputs
``statistics``         Fisher's exact test on thinned counts, and the test of the chosen event on fresh runs
``verdict``            the result of an audit, in words
``subject``            one mechanism of the catalogue with its claim
``shipped``            the registered mechanisms of dpsql as subjects
``mistakes``           mechanisms with a known verdict, most of them incorrect
``end_to_end``         whole statements on the data and on the data without one unit
``report``             a campaign as plain data, text and p-value curves
``report_html``        a campaign as an HTML page
=====================  =================================================================
"""

from dpsql.audit.catalogue import CATALOGUE, EPSILONS, Campaign, Outcome, campaign
from dpsql.audit.detector import detect
from dpsql.audit.inputs import Pair, pairs
from dpsql.audit.outputs import CHARGE, read
from dpsql.audit.report import as_data, as_text, figure, strip, verdict_data
from dpsql.audit.report_html import as_html
from dpsql.audit.subject import Subject
from dpsql.audit.verdict import Counterexample, PValues, Verdict

__all__ = [
    "CATALOGUE",
    "CHARGE",
    "EPSILONS",
    "Campaign",
    "Counterexample",
    "Outcome",
    "PValues",
    "Pair",
    "Subject",
    "Verdict",
    "as_data",
    "as_html",
    "as_text",
    "campaign",
    "detect",
    "figure",
    "pairs",
    "read",
    "strip",
    "verdict_data",
]
