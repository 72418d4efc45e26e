"""Reports: statements fixed before their first answer, measured together, answered from one estimate.

====================  ===========================================================================
``linear_releases``   which releases are sums over the cells of one table, and why others are none
``column_sets``       the values of one column that keys and conditions tell apart
``axes``              their numbers as sets along axes, one for each column
``measured``          the statement that measures a marginal, and what its release shows
``measurement_plan``  what is measured of each table, and its share of the epsilon
``planned``           a report that is run once, planned and priced, and the sums that it shows
``registered``        registered reports: planned once, before their first answer
``report_runs``       a run of one for a part of units: what it measures, and what was measured before;
                      what would not follow from that is refused
``answers``           the answers of all statements from the releases, and what they are made of
``session_reports``   the reports of one analyst, the statements about them, and their pages
====================  ===========================================================================
"""

from __future__ import annotations

from dpsql.reports.planned import PlannedReport
from dpsql.reports.session_reports import SessionReports
