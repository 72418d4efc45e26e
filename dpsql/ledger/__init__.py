"""The ledger of a policy: `dpsql.kernel.ledger` has its charges; here they are shown and verified.

==================  =============================================================================
``ledger``          `Ledger`: opened as a policy says, what the session calls
``budgets``         what is spent and left, and how that is shown where costs add up
``listing``         entries, releases and ladders, for the owner and for an analyst
``rollback_guard``  notices an older copy of the ledger, and goes on with one where the owner says so
``mark``            the ledger's newest event and totals, in a file that lies elsewhere
``files``           durable and exclusive use of small files
``migration``       what brings an older file up to date
``checking``        the invariants, verified
``replay``          the tables, compared with all events
==================  =============================================================================
"""

from __future__ import annotations

from dpsql.kernel.ledger.amounts import shown
from dpsql.kernel.ledger.events import Event
from dpsql.kernel.ledger.limits import Limits
from dpsql.kernel.ledger.records import (
    LadderRequest,
    LadderReservation,
    RefinementStep,
    Request,
    Reservation,
    Settled,
    StoredLadder,
    StoredRelease,
)
from dpsql.kernel.ledger.scopes import GroupCap, ScopeBudget, scope_words
from dpsql.ledger.budgets import Budget, rows_of
from dpsql.ledger.ledger import Ledger, Opening
from dpsql.ledger.listing import Entry, LadderCharge, Lineage, ReleaseInfo

__all__ = [
    "Budget",
    "Entry",
    "Event",
    "GroupCap",
    "LadderCharge",
    "LadderRequest",
    "LadderReservation",
    "Ledger",
    "Limits",
    "Lineage",
    "Opening",
    "RefinementStep",
    "ReleaseInfo",
    "Request",
    "Reservation",
    "ScopeBudget",
    "Settled",
    "StoredLadder",
    "StoredRelease",
    "rows_of",
    "scope_words",
    "shown",
]
