"""Exact budgets, durable charges, stored releases: one SQLite file beside the policy.

================  ===========================================================================
``ledger``        `Ledger`, what the session calls
``charging``      the life of a charge, inside one transaction: reserve, step, settle, fail, cancel
``refining``      counts that are released again with less noise: after which release, at what epsilon
``limits``        how many statements may fail or be cancelled, and the slots of those that run
``store``         a process's connection: transactions, waiting, threads, forks
``schema``        the file: its tables, creation, recognition and migration
``amounts``       exact amounts as text
``process_identity``  whether the process that holds a reservation is still alive
``checking``      the invariants, verified
``faults``        one clear error for each kind of failure of the file
``records``       the types that the ledger returns
================  ===========================================================================
"""

from __future__ import annotations

from dpsql.ledger.amounts import shown
from dpsql.ledger.charging import GroupCap
from dpsql.ledger.ledger import Ledger
from dpsql.ledger.records import (
    Budget,
    Entry,
    Lineage,
    RefinementStep,
    ReleaseInfo,
    Request,
    Reservation,
    Settled,
    StoredRelease,
)

__all__ = [
    "Budget",
    "Entry",
    "GroupCap",
    "Ledger",
    "Lineage",
    "RefinementStep",
    "ReleaseInfo",
    "Request",
    "Reservation",
    "Settled",
    "StoredRelease",
    "shown",
]
