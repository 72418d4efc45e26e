"""Exact budgets, durable charges, stored releases: one SQLite file beside the policy.

====================  ===========================================================================
``ledger``            `Ledger`, what the session calls
``charging``          the life of a charge, inside one transaction: reserve, step, settle, fail, cancel
``ladders``           the life of a kept ladder: reserve, then settle or fail; what is kept
``ladder_methods``    what `Ledger` does with kept ladders
``sharing``           releases that are given again, to their analyst or to another one
``refining``          counts that are released again with less noise: after which release, at what epsilon
``caps``              what the policy allows: in all, to each analyst, to groups, to one statement
``limits``            how many statements may fail or be cancelled, and the slots of those that run
``totals``            what is spent, of the policy and of each analyst
``accounts``          the scopes of a policy: what each has left, and their orders
``budgets``           what is spent and left
``budget_rows``       how that is shown where costs add up
``sums``              the totals as they are to be, from all entries
``running_sums``      the totals as they are to be, after each event
``events``            everything that changed, in a chain of hashes
``listing``           entries and releases, for the owner and for an analyst
``store``             a process's connection: transactions, waiting, threads, forks
``schema``            the file: its creation and its recognition
``tables``            its tables
``migration``         what brings an older file up to date
``files``             durable and exclusive use of small files
``amounts``           exact amounts as text
``process_identity``  whether the process that holds a reservation is still alive
``checking``          the invariants, verified
``replay``            the tables, compared with all events
``mark``              the ledger's newest event and totals, in a file that lies elsewhere
``mark_places``       where that file is
``high_water``        the mark, compared with the ledger and written before rows are handed out
``seen``              a ledger as one transaction sees it
``restoring``         goes on with an older ledger: what its mark tells is spent
``faults``            one clear error for each kind of failure of the file
``records``           the types that the ledger returns
====================  ===========================================================================
"""

from __future__ import annotations

from dpsql.ledger.amounts import shown
from dpsql.ledger.budget_rows import rows_of
from dpsql.ledger.budgets import Budget, ScopeBudget
from dpsql.ledger.caps import GroupCap
from dpsql.ledger.events import Event
from dpsql.ledger.ladders import scope_words
from dpsql.ledger.ledger import Ledger, Opening
from dpsql.ledger.records import (
    Entry,
    LadderCharge,
    LadderRequest,
    LadderReservation,
    Lineage,
    RefinementStep,
    ReleaseInfo,
    Request,
    Reservation,
    Settled,
    StoredLadder,
    StoredRelease,
)

__all__ = [
    "Budget",
    "Entry",
    "Event",
    "GroupCap",
    "LadderCharge",
    "LadderRequest",
    "LadderReservation",
    "Ledger",
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
