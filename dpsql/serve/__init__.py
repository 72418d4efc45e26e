"""The server: analysts log in over a network and ask; the data stay with the owner.

Doors translate protocols, and nothing else. What they ask goes to a `StatementService`: price, run, explain,
budget, release; that of a connection, `Client`, can also describe, answer at once, and cancel. It asks the
gate for every statement, and a session for every answer.

===================================  =================================================================
``statement_service``, ``client``    the service of one analyst, on a server or of a session
``statement_run``                    the steps of one statement; ``statement_pool`` awaits them in threads,
                                     ``admission`` takes analysts in turn, ``statement_caches`` keeps plans
``service``, ``shared``              what is open once: the policy (``generation``), pools, all clients
``gate``                             who may log in and ask: ``accounts``, ``user``, in a file
                                     (``account_file``, ``changes``); ``scram`` checks passwords
``confirm``, ``json_facts``          confirmations of prices, and answers as JSON, for pages and programs
``wire``                             the protocol of PostgreSQL's clients; ``settings`` are what they set,
                                     ``catalog`` is what they look up
``page``                             pages for people, and the JSON over HTTP beneath them
``mcp``, ``mcp_server``              programs that speak the Model Context Protocol, with ``mcp_tools``
``start``, ``server``, ``state``     the process: its parts, its start, reload and end; the files it reads
``listening``, ``tls``, ``http``     sockets, certificates, HTTP
``log``, ``metrics``, ``health``     what the server tells its owner
===================================  =================================================================
"""

from __future__ import annotations
