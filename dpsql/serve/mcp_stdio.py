"""The MCP server of one program, over its standard input and output.

Over a policy on this machine it is for owners' trials: whoever starts it may read the data. Over a session on
a server it runs on the program's side, which gets the login from the environment and never sees the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.login import entropy
from dpsql.serve.agent import Tools
from dpsql.serve.backends import Backend, LocalBackend, RemoteBackend
from dpsql.serve.confirm import Confirmations, SpendingRule
from dpsql.serve.mcp_server import server

if TYPE_CHECKING:
    from fractions import Fraction

    from mcp.server.mcpserver import MCPServer

    from dpsql.remote import RemoteSession
    from dpsql.session import Session


def over_session(
    session: Session, *, free_below: Fraction, ask_person_above: Fraction | None
) -> MCPServer[object]:
    """Return the server over a session in this process."""
    return _over(LocalBackend(session), free_below, ask_person_above)


def over_server(
    session: RemoteSession, user: str, *, free_below: Fraction, ask_person_above: Fraction | None
) -> MCPServer[object]:
    """Return the server over a session on a server."""
    return _over(RemoteBackend(session, user), free_below, ask_person_above)


def _over(backend: Backend, free_below: Fraction, ask_person_above: Fraction | None) -> MCPServer[object]:
    rule = SpendingRule(Confirmations(entropy.key(32)), free_below, ask_person_above)
    tools = Tools(backend, rule)

    async def own() -> Tools:
        return tools

    return server(own)
