"""The ledger of a policy: `dpsql.kernel.ledger` has its charges; here they are shown and verified.

=======================  ========================================================================
``ledger``               `Ledger`: opened as a policy says, what the session calls
``listing``              entries, releases, ladders and those of reports, for the owner and for an analyst
``budgets``              what is spent and left, in all and as rows
``part_budgets``         what is spent and left of each part of units
``rollback_guard``       notices an older copy of the ledger, and goes on with one where the owner says so
``mark``                 the ledger's newest event and totals, in a file that lies elsewhere
``key_file``             the key of the thresholds of streams and of the hashes of units, beside the ledger
``migration``            what brings an older file up to date
``verification``         the invariants, and the tables compared with all events
``replay``               the totals and the streams after each event
=======================  ========================================================================
"""

from __future__ import annotations

from dpsql.kernel.ledger.caps import GroupCap
from dpsql.kernel.ledger.events import (
    LadderRequest,
    LadderReservation,
    RefinementStep,
    Request,
    Reservation,
    Settled,
    StoredLadder,
    StoredRelease,
)
from dpsql.kernel.ledger.limits import Limits
from dpsql.kernel.ledger.reports import StoredReport
from dpsql.kernel.ledger.scopes import ScopeBudget, scope_words
from dpsql.kernel.ledger.totals import shown
from dpsql.ledger.budgets import LIKE, Budget, BudgetOfParts, BudgetRenewal, rows_of
from dpsql.ledger.ledger import Ledger, Opening
from dpsql.ledger.listing import Entry, LadderCharge, Lineage
from dpsql.ledger.part_budgets import list_fullest, read_parts, write_parts
