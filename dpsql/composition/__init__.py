"""Statements of several parts: release blocks, and one outer query over what they release.

=============  ============================================================
``parts``      takes a statement apart into release blocks and an outer query
``block``      divides a release block into what is counted and a SELECT over the released rows; ``clauses``
               reads HAVING, QUALIFY, ORDER BY and LIMIT
``existence``  decides which groups exist for the outer query; ``half_way`` where its thresholds lie
``running``    obtains the releases: those stored, and the others under one reservation
``outer``      binds and runs the outer query
``selected``   of which releases the outer query shows rows because of their noise; ``selecting`` follows
               it through its tree, ``dependence`` has the types
``views``      the columns of the policy's views; ``answer_schema`` those of an answer
=============  ============================================================
"""

from dpsql.composition.outer import compose, layout_of, run_composed
from dpsql.composition.parts import Parts, ReleasePart, parts_of, release_blocks
from dpsql.composition.running import Releasing
from dpsql.composition.selected import selected_parts
from dpsql.composition.show_describe import describe_view, ends, schema_of, with_ends

__all__ = [
    "Parts",
    "ReleasePart",
    "Releasing",
    "compose",
    "describe_view",
    "ends",
    "layout_of",
    "parts_of",
    "release_blocks",
    "run_composed",
    "schema_of",
    "selected_parts",
    "with_ends",
]
