"""Detect counterexamples to differential privacy: tests whether a mechanism satisfies its claim.

`detect` takes any mechanism that runs in batches and returns a `Verdict` with p-values, the event that
distinguishes best and a lower bound on the true epsilon. `campaign` audits the `CATALOGUE`: all mechanisms of
dpsql, and subjects known to be private or not.

=========================  =============================================================================
``detector``               the search for a counterexample, the test on fresh runs, the verdict in words; a
                           mechanism with its claim; those of dpsql (``cases`` has their inputs)
``counterexample_search``  the search over inputs and arguments, and the choice of an event
``runs``                   adjacent inputs, and the outputs of many runs as labels and numbers
``features``               labels and numbers of an output that events are conditions on
``feature_selection``      the features of two samples, with combinations that distinguish them
``events``                 events and their conditions, and all that two samples are searched for
``statistics``             Fisher's exact test on thinned counts, and the test of the chosen event
``mistakes``               mechanisms with a known verdict, most of them incorrect
``end_to_end``             whole statements on the data and on the data without one unit
``campaigns``              audits of several, as plain data, text, HTML
=========================  =============================================================================
"""

from __future__ import annotations

from dpsql.audit.campaigns import (
    CATALOGUE,
    EPSILONS,
    Campaign,
    Outcome,
    as_data,
    as_html,
    as_text,
    campaign,
    figure,
    strip,
    verdict_data,
)
from dpsql.audit.detector import Counterexample, PValues, Subject, Verdict, detect
from dpsql.audit.runs import CHARGE, Pair, pairs, read

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
