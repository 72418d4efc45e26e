"""The client of `dpsql serve`: the same statements, answered by a server over PostgreSQL's wire protocol.

==================  ===========================================================================
``server_target``   what a URL or the command line says of the server: host, user, database, certificate;
                    where the password comes from: the environment, ``~/.pgpass``, a prompt; the encrypted
                    socket, remembered certificates of this machine, channel binding
``server_wire``     one connection: login by SCRAM, statements, cancel requests
``sent_statement``  how a statement is sent; errors of a server as dpsql's own classes
``session``         `RemoteSession`, which cursors and the command line use as they use a local session
==================  ===========================================================================
"""

from dpsql.remote.server_target import Target, find_password
from dpsql.remote.session import RemoteSession, connect

__all__ = ["RemoteSession", "Target", "connect", "find_password"]
