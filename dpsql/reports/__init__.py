"""Reports: statements that are fixed before their first answer, measured together, answered from one estimate.

====================  ===========================================================================
``linear_releases``   which releases are sums over the cells of one table, and why others are none
``axes``              their numbers as sets along axes, one for each column
``measured``          the statement that measures a marginal, and what its release shows
``planned``           a report that is planned and priced
``answers``           the answers of all statements from the releases
====================  ===========================================================================
"""

from __future__ import annotations

from dpsql.reports.answers import answer_report, answer_run
from dpsql.reports.planned import PlannedReport, plan_statements
from dpsql.reports.registered import PlannedRegistration, PlannedRun, plan_registration, plan_run, share_of

__all__ = [
    "PlannedRegistration",
    "PlannedReport",
    "PlannedRun",
    "answer_report",
    "answer_run",
    "plan_registration",
    "plan_run",
    "plan_statements",
    "share_of",
]
