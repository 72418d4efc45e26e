"""The server: analysts log in over a network and ask; the data stay with the owner.

==================================  ==================================================================
``start``, ``server``, ``parts``    the process: what it is made of, how it starts, reloads and ends
``state``, ``config``               what it reads from files
``listening``, ``tls``              sockets and certificates; ``self_signed`` makes one
``accounts``, ``user``              the closed list of users, in a file (``account_file``, ``changes``)
``scram``, ``throttle``             logins by SCRAM-SHA-256, and delays after failed ones
``wire``                            the protocol of PostgreSQL's clients
``http``, ``mcp``                   programs that speak the Model Context Protocol
``page``                            pages for people, and the JSON over HTTP beneath them
``served_backend``                  what answers those who ask over HTTP
``service``, ``client``             answers statements, whatever the protocol
``settings``, ``catalog``           what PostgreSQL's clients set and look up
``log``, ``metrics``, ``health``    what the server tells its owner; ``notify`` tells systemd
``entropy``                         random keys, salts and tokens
==================================  ==================================================================
"""

from __future__ import annotations
