"""The charges: durable before data is read, within every cap, final, and chained by hashes; one SQLite file.

====================  ===========================================================================
``ledger``            `ChargeLedger`: what a statement calls before and after it reads data
``charging``          the life of a charge, inside one transaction: reserve, step, settle, fail, cancel
``spending``          adds a loss to all scopes that it counts in, or raises `BudgetExceeded`
``scopes``            the caps of a policy, and what each scope has spent and admits
``totals``            the totals of the scopes, as they are stored
``limits``            how many statements may fail or be cancelled, and the slots of those that run
``ladders``           the life of a kept ladder: reserve, then settle or fail; what is kept
``releases``          stored releases: found again by their analyst, or shared with another one
``refinements``       releases whose noise depends on that of earlier ones
``events``            everything that changed, in a chain of hashes
``store``             a process's connection: transactions, waiting, threads, forks, errors
``schema``            the file: its creation and its recognition; ``tables`` its tables
``amounts``           exact amounts as text
``process_identity``  whether the process that holds a reservation is still alive
``records``           the types that are passed in and out
====================  ===========================================================================
"""
