"""Pages for people, and the JSON over HTTP beneath them: an analyst's page, and the owner's.

====================  ================================================================================
``application``       the analyst's application: its routes, who asks
``guard``             refuses requests of other sites; headers that browsers obey; no error's text leaks
``sign_in``           passwords and tokens -> a login, kept under a cookie
``requests``          bodies of requests, answers as JSON, the files of the pages
``answers``           what a user asks, as JSON: exact rows, and how people read them
``owner``             the owner's application; ``owner_facts`` is what it shows
====================  ================================================================================
"""

from __future__ import annotations
