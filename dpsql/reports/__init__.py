"""Reports: statements fixed before their first answer, measured together, answered from one estimate.

====================  ===========================================================================
``linear_releases``   which releases are sums over the cells of one table, and why others are none
``column_sets``       the values of one column that keys and conditions tell apart
``axes``              their numbers as sets along axes, one for each column
``shown_sums``        which sums of its groups a statement shows, such as running totals
``measured``          the statement that measures a marginal, and what its release shows
``measurement_plan``  what is measured of each table, and its share of the epsilon
``missing_numbers``   what would not follow from that, so that nothing is charged
``planned``           a report that is run once, planned and priced
``registered``        registered reports: planned once, before their first answer
``report_runs``       a run of one for a part of units: what it measures, and what was measured before
``answers``           the answers of all statements from the releases
``estimated_noises``  what the numbers of an estimate are made of, for SQL over them
``history``           the page of a report: last answers, next price, numbers from part to part
``session_reports``   the reports of one analyst, and the statements about them
====================  ===========================================================================
"""

from __future__ import annotations

from dpsql.reports.planned import PlannedReport
from dpsql.reports.registered import PlannedRegistration
from dpsql.reports.report_runs import PlannedRun
from dpsql.reports.session_reports import SessionReports

__all__ = ["PlannedRegistration", "PlannedReport", "PlannedRun", "SessionReports"]
