"""Random private statements over random databases, to hold the analysis to its claim.

==============  =========================================================================
``values``      what cells hold: few values that meet one another, and nasty ones
``world``       a policy with its shell database: every kind of table the rules know
``data``        one random database; ``stage`` holds it, and what is left without each unit
``real``        the same in files, opened by a session; ``crowd``  a large one
``scope``       what a generated statement may name; ``calls``  the functions it may call
``expressions`` values and conditions over it; ``subqueries`` and ``windows`` in them
``joins``       FROM; ``blocks``  subqueries; ``statements``  the whole
``check``       exact counts on all neighbours, and what the claim says of them
``sums``        sums, averages and variances, with what they are exactly: ``exact``
``campaign``    statements times databases, with figures
``asked``       statements with what plain SQL asks instead; ``answered`` asks both, ``formats`` gives
                the answer in every form
``amounts``     sums, averages and variances of hostile numbers
``mutant``      a rule made wrong on purpose; ``mutants``  all of them
==============  =========================================================================
"""
