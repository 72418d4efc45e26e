"""Attacks on the checker of the kernel: edited trees, wrong rules, and how much of what is accepted it proves.

==================  ==========================================================================
`sites`             the places in a query tree, and the tree with another node at one of them
`edits`             random edits: what is dropped, changed, swapped or repeated
`grounds`           the queries that are edited, and random databases without each unit
`claims`            whether a certificate holds of counts with and without a unit
`attack`            rounds of edits: refused or accepted, and each accepted claim that breaks
`completeness`      how much of what the analysis accepts is certified
==================  ==========================================================================
"""
