"""Counterexample detection for differential privacy: whether a mechanism keeps what it claims.

`detect` takes any mechanism that runs in batches and returns a `Verdict` with p-values, the closest
event in words and a lower bound on the true epsilon. `campaign` audits the `CATALOGUE`: all of dpsql's
mechanisms, and test subjects known to be right or wrong.

=====================  =================================================================
``detector``           the search, and the test on fresh runs
``inputs``             adjacent inputs
``outputs``            what runs gave, as labels and numbers
``features``           what events are about
``directions``         combinations of an output's numbers; ``residues`` digits below the noise
``events``, ``search`` events, and which of them tells two inputs apart
``statistics``         Fisher's exact test on thinned counts
``verdict``            what comes out, in words
``subject``            a mechanism of the catalogue; ``subjects_..``, ``wrong_..`` have them
``curves``, ``report``, ``report_html``  p-value curves in characters; JSON; HTML
=====================  =================================================================
"""

from dpsql.audit.catalogue import CATALOGUE, EPSILONS, Campaign, Outcome, campaign
from dpsql.audit.curves import figure, strip
from dpsql.audit.detector import detect
from dpsql.audit.inputs import Pair, pairs
from dpsql.audit.outputs import CHARGE, read
from dpsql.audit.report import as_data, verdict_data
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
    "campaign",
    "detect",
    "figure",
    "pairs",
    "read",
    "strip",
    "verdict_data",
]
