"""Values on the wire: PostgreSQL's types, and their text and binary formats.

``oids`` says which type a column has; ``encoding`` encodes whole columns, with ``numbers`` and ``datetimes``
for what PostgreSQL writes in a way of its own; ``rows`` joins columns to messages; ``parameters``, with
``parameter_text``, decodes what a client binds.
"""

from __future__ import annotations
