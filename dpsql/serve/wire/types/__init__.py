"""Values on the wire: PostgreSQL's types, and their text and binary formats.

``oids`` says which type a column has; ``encoding`` encodes whole columns and joins them to messages, with
``number_texts`` for what PostgreSQL writes in a way of its own; ``parameters`` decodes what a client binds.
"""

from __future__ import annotations
