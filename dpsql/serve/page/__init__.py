"""Pages for people, and the JSON over HTTP beneath them: an analyst's page, and the owner's.

``application`` has the routes, says who asks and refuses requests of other sites; ``answers`` reads requests
and writes answers as JSON: exact rows, and how people read them; ``owner`` is the owner's application.
"""

from __future__ import annotations
