"""The client of `dpsql serve`: the same statements, answered by a server over PostgreSQL's wire protocol.

=============  ================================================================================
``target``     what a URL or the command line says of the server: host, user, database, certificate; and
               where the password comes from: the environment, ``~/.pgpass``, a prompt
``tls``        the encrypted socket, remembered certificates of this machine, channel binding
``scram``      SCRAM-SHA-256 and -PLUS as a client, without input or output
``wire``       one connection: login, statements, cancel requests
``failures``   errors of a server as dpsql's own classes
``session``    `RemoteSession`, which cursors and the command line use as they use a local session
=============  ================================================================================
"""

from dpsql.remote.session import RemoteSession, connect
from dpsql.remote.target import Target, find_password

__all__ = ["RemoteSession", "Target", "connect", "find_password"]
