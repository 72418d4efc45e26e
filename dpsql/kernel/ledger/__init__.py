"""The charges: durable before data is read, within every cap, final, and chained by hashes; one SQLite file.

====================  ===========================================================================
``ledger``            `ChargeLedger`: what a statement calls before and after it reads data
``charging``          the life of a charge, inside one transaction: reserve, step, settle, fail, cancel
``scopes``            the caps of a policy, what each scope has spent and admits; a loss is added to all
``part_totals``       what was charged to parts of units: a tree of nodes for each scope
``part_declarations`` what parts are; where that changes, the largest total of any counts in all
``totals``            the totals of the scopes, and exact amounts as text
``budget_errors``     the errors of a budget of which too little is left
``limits``            how many statements may fail or be cancelled, and the slots of those that run
``kept_results``      kept ladders, and stored releases: found again by their analyst, or shared
``events``            everything that changed, in a chain of hashes; the types that pass in and out
``store``             a process's connection: transactions, waiting, threads, forks, errors
``schema``            the file: its tables, its creation and recognition
``process_identity``  whether the process that holds a reservation is still alive
====================  ===========================================================================
"""
