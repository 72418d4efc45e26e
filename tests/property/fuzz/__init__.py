"""Random private statements over random databases, to hold the analysis to its claim.

==============  =========================================================================
``values``      what cells hold: few values that meet one another, and nasty ones
``world``       a policy with its shell database: every kind of table the rules know
``family``      one random database, and what is left of it when a unit is removed
``scope``       what a generated statement may name; ``expressions`` over it
``statements``  FROM, blocks, whole statements; each notes the rules it reaches
``check``       exact counts on all of them, and what the claim says of those
``campaign``    statements times databases, with figures
``mutants``     rules made wrong on purpose, each of which a campaign must notice
==============  =========================================================================
"""
