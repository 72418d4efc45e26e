"""The PostgreSQL wire protocol, version 3: messages of a client in, answers out.

==============================  =====================================================================
``connection``                  one connection from its first byte to its last
``startup``                     until the client has logged in; all connections and their cancel keys
``channel``                     its bytes: buffers, TLS, the end at any time
``messages``                    messages as bytes, read and written; what a client sees of an error
``extended``, ``portals``       the extended query; prepared statements, portals and cursors by name
``session``                     running one statement, whatever it is; the state of the transaction
``commands``, ``command_words`` the commands of a session
``results``                     statements, what they give, and sending it: rows, copies, notices
``types``                       values and rows as bytes
==============================  =====================================================================
"""

from __future__ import annotations
