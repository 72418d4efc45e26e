"""`Service`: answers the statements of all clients, over all protocols, on one policy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dpsql import __version__
from dpsql.errors import Error
from dpsql.policy import Policy, load
from dpsql.serve.client import Client
from dpsql.serve.figures import Figures, StatementRecord
from dpsql.serve.gate import Gate, Login
from dpsql.serve.generation import Generation
from dpsql.serve.registry import Registry
from dpsql.serve.shared import Shared
from dpsql.serve.view_columns import view_columns

if TYPE_CHECKING:
    import os

    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.ledger import Budget
    from dpsql.policy import ServeConfig
    from dpsql.serve.accounts import Users
    from dpsql.serve.catalog import Catalog as Catalogue
    from dpsql.serve.catalog import MakeCatalogue
    from dpsql.serve.settings import Settings

__all__ = ["Service", "StatementRecord"]


def _catalogue(policy: Policy, schema: SchemaDatabase, name: str) -> Catalogue:
    from dpsql.serve.catalog import Catalog  # noqa: PLC0415  it loads much

    return Catalog(policy, schema, name, views=view_columns(policy, schema), version=__version__)


def _policy(given: Policy | str | os.PathLike[str]) -> Policy:
    return given if isinstance(given, Policy) else load(given)


class Service:
    """Everything that is open once for a policy. Any thread may use it."""

    def __init__(
        self,
        config: ServeConfig,
        policy: Policy | str | os.PathLike[str],
        users: Users,
        *,
        version: str = __version__,
        catalogue: MakeCatalogue = _catalogue,
    ) -> None:
        """Open the policy's database and catalogue; raises `PolicyError` or `OperationalError`."""
        self.version = version
        self._catalogue = catalogue
        self.gate = Gate(users)
        """Who may log in and ask."""
        self._shared = Shared(Generation(_policy(policy), config, catalogue), self.gate)
        self._registry: Registry[Client] = Registry()
        self._reloading = threading.Lock()

    @property
    def generation(self) -> Generation:
        """The policy that is open now, with what belongs to it."""
        return self._shared.generation

    @property
    def policy(self) -> Policy:
        """The policy that is open now."""
        return self.generation.policy

    @property
    def clients(self) -> Mapping[int, Client]:
        """The connected clients, by number."""
        return self._registry.clients

    @property
    def on_statement(self) -> Callable[[StatementRecord], None] | None:
        """Called for each statement that has ended, on any thread."""
        return self._shared.on_statement

    @on_statement.setter
    def on_statement(self, call: Callable[[StatementRecord], None] | None) -> None:
        self._shared.on_statement = call

    def client(self, login: Login, number: int, settings: Settings) -> Client:
        """Let a user who has logged in ask; raises `PolicyError` if the policy does not list the analyst."""
        client = Client(self._shared, self._registry, login, number, settings)
        self._registry.add(client)
        return client

    def reload(
        self,
        policy: Policy | str | os.PathLike[str] | None = None,
        config: ServeConfig | None = None,
        users: Users | None = None,
    ) -> tuple[int, ...]:
        """Open another policy, or the same one again; raises, and changes nothing, if it cannot be opened.

        It blocks. What runs ends on the policy on which it began; what waits begins on the new one. Clients
        whose logins do not hold any more are ended, and their numbers returned. How
        many statements may run and wait stays as it was when the server started.
        """
        with self._reloading:
            before = self.generation
            opened = _policy(before.policy.path or before.policy if policy is None else policy)
            made = Generation(opened, config or before.config, self._catalogue)
            self.gate.users = users or self.gate.users  # first: a login that has ended asks nothing anew
            self._shared.generation = made
            before.retire()
        gone = [each for each in self._registry.all() if not self.gate.holds(each.login)]
        for each in gone:
            each.terminate()
        return tuple(each.number for each in gone)

    def shut_down(self) -> None:
        """Let no further statement begin."""
        self._shared.closing = True

    def cancel_all(self) -> None:
        """Stop what runs and what waits."""
        for each in self._registry.all():
            each.cancel()
        self._shared.cancel_abandoned()

    def close(self) -> None:
        """Close the pools and the database; it waits for what runs."""
        self.shut_down()
        self._shared.ended.set()
        self.cancel_all()
        for pool in self._shared.pools:
            pool.close()
        self.generation.close()

    @property
    def messages(self) -> tuple[str, ...]:
        """What the owner should know of the ledger that is open."""
        return self.generation.database.ledger.messages

    def ready(self) -> bool:
        """Return whether the policy is open and its ledger can be written."""
        if self._shared.closing:
            return False
        try:
            database = self.generation.database
            database.check()
            database.ledger.remember("ready", datetime.now(UTC).isoformat(timespec="seconds"))
        except Error:
            return False
        return True

    def budget(self, analyst: str | None = None) -> Budget:
        """Return what is spent and left, of the policy or of an analyst."""
        return self.generation.database.ledger.budget(analyst)

    def figures(self) -> Figures:
        """Return what was counted."""
        heavy = self._shared.heavy
        return self._shared.counters.figures(waiting=heavy.waiting, running=heavy.running)
