"""The server: analysts log in over a network and ask; the data stay with the owner.

Doors translate protocols, and nothing else. What they ask goes to a `StatementService`: price, run, explain,
budget, release; that of a connection, `Client`, can also describe, answer at once, and cancel. It asks the
gate for every statement, and a session for every answer.

=================================  ===================================================================
``statement_service``, ``client``  the service of one analyst: a session, or on a server
``statement_run``                  its steps; ``statement_pool`` awaits them in threads
``answers``                        what a client is given, and what is kept of it
``service``, ``shared``            what is open once: the policy, pools in threads, all clients
``gate``                           who may log in: ``users`` and their file; `login` checks passwords
``limits``                         of all that is decoded for a client; the server's own errors
``json_facts``                     answers as JSON, for pages and programs
``wire``                           the protocol of PostgreSQL's clients; ``settings`` (with
                                   ``settings_table``) are what they set, ``catalog`` is what they look up
``page``                           pages for people, and the JSON over HTTP beneath them
``mcp``                            programs that speak the Model Context Protocol
``server``, ``state``              the process: its parts, its start, reload and end; files and sockets
``http``                           applications of HTTP in the server's event loop
``monitoring``                     what the server tells its owner
=================================  ===================================================================
"""

from __future__ import annotations
