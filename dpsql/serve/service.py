"""`Service`: the policy that is served, its clients over all protocols, and who may ask."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql import __version__
from dpsql.composition.show_describe import describe_view
from dpsql.errors import Error
from dpsql.language import Options
from dpsql.login import draw_number
from dpsql.policy import Policy, load
from dpsql.serve.client import Client
from dpsql.serve.gate import Gate, Login
from dpsql.serve.monitoring import Figures
from dpsql.serve.settings import Settings
from dpsql.serve.shared import Generation, SharedByClients
from dpsql.types import HUGEINT, VARCHAR, SqlType, column_type

if TYPE_CHECKING:
    import os

    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.ledger import Budget
    from dpsql.policy import ServeConfig
    from dpsql.serve.catalog.catalog import MakeCatalog, PgCatalog
    from dpsql.serve.users import Users


def _open_catalog(policy: Policy, schema: SchemaDatabase, name: str) -> PgCatalog:
    from dpsql.serve.catalog.catalog import PgCatalog  # noqa: PLC0415  it loads much

    return PgCatalog(policy, schema, name, views=_describe_views(policy, schema), version=__version__)


def _describe_views(policy: Policy, schema: SchemaDatabase) -> dict[str, tuple[tuple[str, SqlType], ...]]:
    """Return names and types of the columns of each view; none of a view that is refused by itself."""
    budget = policy.budget
    defaults = Options(
        epsilon=budget.default_epsilon, delta=budget.default_delta, confidence=Fraction(95, 100)
    )
    found: dict[str, tuple[tuple[str, SqlType], ...]] = {}
    for name, view in policy.views.items():
        try:
            described = describe_view(view, policy, schema, defaults)
        except Error:
            continue
        names, types = (described.column(place).to_pylist() for place in (0, 1))
        found[name] = tuple((column, _nearest_type(kind)) for column, kind in zip(names, types, strict=True))
    return found


def _nearest_type(text: str) -> SqlType:
    """Return a type as the engine writes it; those that no column of a policy has are shown as near ones."""
    try:
        return column_type(text)
    except ValueError:
        return HUGEINT if text.startswith(("HUGEINT", "UHUGEINT", "DECIMAL")) else VARCHAR


def _load(given: Policy | str | os.PathLike[str]) -> Policy:
    return given if isinstance(given, Policy) else load(given)


class Service(SharedByClients):
    """Everything that is open once for a policy. Any thread may use it, but for `client_of`."""

    def __init__(
        self,
        config: ServeConfig,
        policy: Policy | str | os.PathLike[str],
        users: Users,
        *,
        catalog: MakeCatalog = _open_catalog,
    ) -> None:
        """Open the policy's database and catalogue; raises `PolicyError` or `OperationalError`."""
        self._catalog = catalog
        super().__init__(Generation(_load(policy), config, catalog), Gate(users))
        self._of_logins: dict[tuple[Login, str], Client] = {}
        self._reloading = threading.Lock()

    @property
    def policy(self) -> Policy:
        """The policy that is open now."""
        return self.generation.policy

    # -- clients

    def client(self, login: Login, number: int, settings: Settings) -> Client:
        """Let a user who has logged in ask; raises `PolicyError` if the policy does not list the analyst."""
        client = Client(self, login, number, settings)
        self.add(client)
        return client

    def client_of(self, login: Login, protocol: str, lane: str = "") -> Client:
        """Return the client of a login without a connection, one for each lane; make it if new.

        Only the thread of the event loop calls it. Clients of the user's logins that do not hold any more are
        closed.
        """
        place, user = (login, f"{protocol} {lane}"), login.user
        client = self._of_logins.get(place)
        if client is None:
            own = [each for each in self._of_logins if each[0].user.name == user.name]
            for old in own:
                if not self.gate.holds(old[0]):
                    self._of_logins.pop(old).close()
            config = self.generation.config
            settings = Settings(user.name, config.name, statement_timeout=config.statement_timeout * 1000)
            client = self._of_logins[place] = self.client(login, draw_number(31), settings)
            client.protocol = protocol
            client.on_terminate = client.cancel  # there is no connection to end
        return client

    # -- the server's life

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
            opened = _load(before.policy.path or before.policy if policy is None else policy)
            made = Generation(opened, config or before.config, self._catalog)
            self.gate.users = users or self.gate.users  # first: a login that has ended asks nothing anew
            self.generation = made
            before.retire()
        gone = [each for each in self.clients if not self.gate.holds(each.login)]
        for each in gone:
            each.terminate()
        return tuple(each.number for each in gone)

    def close(self, within: float | None = None) -> bool:
        """Close the pools and the database; return whether all that ran has ended within so many seconds.

        None: wait for it. Where something does not end, the database stays open for it until the process
        ends; what it had reserved stays charged.
        """
        ended = super().close(within)
        if ended:
            self.generation.close()
        return ended

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages of the open ledger for the owner."""
        return self.generation.database.ledger.messages

    def is_ready(self) -> bool:
        """Return whether the policy is open and its ledger can be written."""
        if self.closing:
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
        """Return how many statements wait, run, and have ended."""
        return self.counters.figures(waiting=self.heavy.waiting_count, running=self.heavy.running_count)
