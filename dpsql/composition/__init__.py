"""Statements of several parts: release blocks, and one outer query over what they release.

=============  ============================================================
``parts``      takes a statement apart into release blocks and an outer query
=============  ============================================================
"""

from dpsql.composition.parts import Parts, ReleasePart, parts_of

__all__ = ["Parts", "ReleasePart", "parts_of"]
