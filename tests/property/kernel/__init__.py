"""Attacks on the checker of the kernel, and how much of what the analysis accepts it proves.

==================  ==========================================================================
`sites`             the places in a query tree, and the tree with another node at one of them
`edits`             random edits, by the rules of `expression_edits` and `query_edits`
`grounds`           the queries that are edited, and random databases without each unit
`claims`            whether a certificate holds of counts with and without a unit
`attack`            rounds of edits: refused or accepted, and each accepted claim that breaks
`agreement`         whether the analysis claims no less than what is certified
`campaign`          the command that edits trees; `completeness` the one that counts what is certified
==================  ==========================================================================
"""
