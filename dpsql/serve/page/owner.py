"""The owner's page, on this machine alone: the policy as it is understood, the users, where the budget went.

The budget is shown by time, analyst, table and mechanism, beside what failed and who is locked.

The page sends the key in a header. A cookie would be sent to whatever else is served on this machine.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from dpsql import __version__
from dpsql.errors import Error, OperationalError
from dpsql.language import Query, find_tables, parse
from dpsql.ledger import Limits
from dpsql.login import draw_text
from dpsql.policy import UnitColumn, UnitRow, UnitVia, describe_protected
from dpsql.render.figures import show_spent
from dpsql.serve import state
from dpsql.serve.http import HttpFront, RequestGuard, hosts_of
from dpsql.serve.json_facts import JsonObject, bounds_facts, budget_facts, domain_facts
from dpsql.serve.page.answers import (
    RefusedError,
    address_of,
    file_routes,
    hash_secret,
    refusal_response,
    to_json,
)

if TYPE_CHECKING:
    from datetime import date

    from starlette.requests import Request

    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.ledger import Entry, Ledger
    from dpsql.policy import Address, Policy, Table
    from dpsql.serve.service import Service
    from dpsql.serve.users import Users

MOST_ENTRIES = 500
"""Entries that are listed; `dpsql budget --json` has all."""
_POINTS = 200
"""Points of the curve over time."""
_UNREAD = "(not read)"


def ledger_facts(ledger: Ledger, policy: Policy, analysts: Iterable[str]) -> JsonObject:
    """Return what the ledger holds; `analysts` are those who may ask, others are history."""
    entries = ledger.entries()
    asked = {entry.analyst for entry in entries}
    return {
        "budget": {**budget_facts(ledger.budget()), "accounting": policy.budget.accounting},
        "over_time": _spending_over_time(entries),
        "by": {
            "analyst": _share_facts(entries, lambda entry: entry.analyst),
            "table": _share_facts(entries, lambda entry: tables_of(entry.statement, policy)),
            "mechanism": _share_facts(entries, lambda entry: entry.mechanism),
        },
        "entries": [_entry_facts(entry, policy) for entry in entries[:MOST_ENTRIES]],
        "entries_in_all": len(entries),
        "analysts": _analyst_facts(ledger, policy, sorted({*analysts, *asked})),
    }


def tables_of(statement: str, policy: Policy) -> str:
    """Return the private tables that a statement names, with commas between them."""
    return _tables_of(
        statement, tuple(policy.tables[name].name for name in policy.tables if not policy.tables[name].public)
    )


@lru_cache(maxsize=4096)
def _tables_of(statement: str, private: tuple[str, ...]) -> str:
    with suppress(Error, RecursionError):
        read = parse(statement)
        if isinstance(read, Query):
            named = {node.name.lower() for node in find_tables(read.tree)}
            found = [name for name in private if name.lower() in named]
            return ", ".join(found) or "(a view)"
    return _UNREAD  # it has parameters, or refines a release


def _share_facts(entries: Sequence[Entry], name_of: Callable[[Entry], str]) -> list[JsonObject]:
    spent: dict[str, Fraction] = defaultdict(Fraction)
    asked: Counter[str] = Counter()
    for entry in entries:
        name = name_of(entry)
        asked[name] += 1
        spent[name] += entry.charged.epsilon or 0
    names = sorted(spent, key=lambda name: (-spent[name], name))
    return [
        {"name": name, "statements": asked[name], "epsilon": float(show_spent(spent[name]))} for name in names
    ]


def _spending_over_time(entries: Sequence[Entry]) -> list[JsonObject]:
    """Return what was spent in all up to each of some moments, the oldest first."""
    points, spent = [], Fraction(0)
    for entry in reversed(entries):
        spent += entry.charged.epsilon or 0
        points.append({"when": entry.when.isoformat(), "epsilon": float(show_spent(spent))})
    step = -(-len(points) // _POINTS) or 1
    return [*points[:-1:step], *points[-1:]]


def _entry_facts(entry: Entry, policy: Policy) -> JsonObject:
    return {
        "entry": entry.entry,
        "when": entry.when.isoformat(" ", "seconds"),
        "analyst": entry.analyst,
        "epsilon": None if entry.charged.epsilon is None else float(show_spent(entry.charged.epsilon)),
        "delta": float(show_spent(entry.charged.delta)),
        "mechanism": entry.mechanism,
        "tables": tables_of(entry.statement, policy),
        "state": entry.state,
        "release": entry.release,
        "statement": entry.statement,
    }


def _analyst_facts(ledger: Ledger, policy: Policy, analysts: Sequence[str]) -> list[JsonObject]:
    """Return what each analyst has left, and whether failed or cancelled statements lock him."""
    budget = policy.budget
    limits = Limits.of(
        budget.max_failures, budget.max_failures_total, budget.max_cancelled, budget.max_cancelled_total
    )
    found = []
    for analyst in analysts:
        failed, cancelled = ledger.count_failures(analyst), ledger.count_cancelled(analyst)
        left: JsonObject = {}
        with suppress(Error):  # the policy does not list him any more
            left = budget_facts(ledger.budget(analyst))
        found.append(
            {
                "analyst": analyst,
                **left,
                "failed": failed,
                "max_failures": limits.failures,
                "cancelled": cancelled,
                "max_cancelled": limits.cancelled,
                "locked": failed >= limits.failures or cancelled >= limits.cancelled,
            }
        )
    everybody = sum(each["failed"] for each in found) >= limits.failures_total
    everybody = everybody or sum(each["cancelled"] for each in found) >= limits.cancelled_total
    return [{**each, "locked": True} for each in found] if everybody else found


# -- policy and users


def policy_facts(policy: Policy, catalog: SchemaDatabase) -> JsonObject:
    """Return what the policy declares, read as the server reads it."""
    budget = policy.budget
    limits = {
        "accounting": budget.accounting,
        "max_epsilon_per_query": _to_float(budget.max_epsilon_per_query),
        "default_epsilon": _to_float(budget.default_epsilon),
        "default_delta": _to_float(budget.default_delta),
        "rows_per_unit": policy.defaults.rows_per_unit,
        "groups": policy.defaults.groups,
        "share_releases": policy.share_releases,
    }
    return {
        "file": None if policy.path is None else str(policy.path),
        "engine": policy.engine,
        "limits": {name: value for name, value in limits.items() if value is not None},
        "caps": [
            {"analyst": each.name, "epsilon": _to_float(each.epsilon), "delta": _to_float(each.delta)}
            for each in policy.analysts.values()
        ],
        "tables": [_table_facts(policy, table, catalog) for table in policy.tables.values()],
        "views": [{"name": view.name, "sql": view.sql} for view in policy.views.values()],
        "warnings": _list_warnings(policy),
    }


def _table_facts(policy: Policy, table: Table, catalog: SchemaDatabase) -> JsonObject:
    columns = []
    for name, sql_type in catalog.columns(table.name):
        facts: JsonObject = {"name": name, "type": str(sql_type)}
        if name in table.domain:
            facts["values"] = domain_facts(table.domain[name])
        columns.append(facts | bounds_facts(policy, table.name, name))
    return {
        "name": table.name,
        "public": table.public,
        "unit": _describe_unit(policy, table),
        "kind": None if table.unit is None else table.unit.kind,
        "unique": [", ".join(each) for each in table.unique],
        "trust_source": table.trust_source,
        "columns": columns,
    }


def _describe_unit(policy: Policy, table: Table) -> str:
    match table.unit:
        case UnitColumn(column):
            return f"the rows of one {column} belong together; rows without one are never counted"
        case UnitVia(via, parent, column):
            return (
                f"a row belongs to the unit of the row of {parent} whose {column} is its {via}: "
                f"protects {describe_protected(policy.tables, table)}"
            )
        case UnitRow():
            return "each row is a unit of its own: nothing protects somebody with several rows"
    return "public: nobody is protected"


def _list_warnings(policy: Policy) -> list[str]:
    found = []
    if not policy.analysts:
        found.append("the policy lists no [analysts]: every user may spend the whole budget")
    if policy.budget.high_water is False:
        found.append("high_water is false: that an older copy of the ledger is in use goes unnoticed")
    for table in policy.tables.values():
        if isinstance(table.unit, UnitRow):
            found.append(f"{table.name}: each row is a unit; is nobody in it with several rows?")
        if table.trust_source and not table.public:
            found.append(f"{table.name}: trust_source is set, so nothing about its rows is verified")
        if not table.public and not table.domain:
            found.append(f"{table.name}: no column has declared values, so every group key costs some delta")
    return found


def users_facts(users: Users, today: date) -> list[JsonObject]:
    """Return the users, never what verifies a password."""
    return [
        {
            "user": name,
            "analyst": account.user.analyst,
            "state": account.state(today),
            "password": account.password is not None,
            "tokens": [token.id for token in account.live_tokens(today)],
            "expires": None if account.user.expires is None else account.user.expires.isoformat(),
            "auto_charge": account.user.auto_charge,
            "free_below": float(account.user.free_below),
        }
        for name, account in sorted(users.accounts.items())
    ]


def _to_float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]  # a fraction


FILES = (
    ("/owner", "owner.html"),
    ("/page.css", "page.css"),
    ("/owner.js", "owner.js"),
    ("/dom.js", "dom.js"),
    ("/theme.js", "theme.js"),
    ("/icon.svg", "icon.svg"),
)
PATH = "/owner"
LINK = "dpsql-owner-page.url"
"""The file with the page's address and key, beside the users file."""


def link_file(users: Path) -> Path:
    """Return the path of the file with the owner's link, beside the users file."""
    return users.parent / LINK


class OwnerPages:
    """The owner's application: everything is read, nothing is changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.key = draw_text(32)

    def routes(self) -> list[Route]:
        """Return the routes of JSON."""
        return [Route("/owner/v1/overview", self._overview, methods=["GET"])]

    async def _overview(self, request: Request) -> Response:
        try:
            self._check(request)
            return Response(
                await asyncio.to_thread(lambda: to_json(self._facts())), media_type="application/json"
            )
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return refusal_response(problem)

    def _check(self, request: Request) -> None:
        """Refuse a request from another machine, or without the key."""
        _check_machine(request)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(hash_secret(given), hash_secret(self.key)):
            raise RefusedError(401, "this is not the key of this server", f"open the link in the file {LINK}")

    def _facts(self) -> JsonObject:
        service, users = self._service, self._service.gate.users
        generation = service.generation
        with generation.use():
            policy, database = generation.policy, generation.database
            found = policy_facts(policy, database.engines().schema_database)
            opened = [f"when the ledger was opened: {text}" for text in service.messages]
            found["warnings"] += [*state.warn_of_users(policy, users), *opened]
            return {
                "version": __version__,
                "database": generation.config.name,
                "connected": len(service.clients),
                **ledger_facts(database.ledger, policy, {user.analyst for user in users}),
                "users": users_facts(users, users.day()),
                "policy": found,
            }


class OwnerFront(HttpFront):
    """Serves the owner's page on a loopback address, without TLS, and keeps its link in a file."""

    def __init__(self, service: Service, address: Address, link: Path) -> None:
        self._pages = OwnerPages(service)
        self._link = link
        super().__init__(lambda bound: owner_app(self._pages, bound), address, None, PATH)

    async def start(self) -> list[str]:
        """Begin to serve; the URLs are without the key, since they are logged."""
        urls = await super().start()
        try:
            self._link.unlink(missing_ok=True)
            file = os.open(self._link, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(f"{urls[0]}#{self._pages.key}\n")
        except OSError as problem:
            await super().stop()
            why = problem.strerror or "it cannot be written"
            raise OperationalError(f"the link of the owner's page, {self._link}: {why}") from None
        return urls

    async def stop(self) -> None:
        """Stop serving, and take the file away."""
        with suppress(OSError):
            self._link.unlink(missing_ok=True)
        await super().stop()


def owner_app(pages: OwnerPages, address: Address) -> RequestGuard:
    """Return the application of the owner at an address."""
    routes = [*file_routes(FILES), *pages.routes()]
    return RequestGuard(Starlette(routes=routes), routes, hosts_of(address), page=PATH)


def _check_machine(request: Request) -> None:
    try:
        local = ipaddress.ip_address(address_of(request)).is_loopback
    except ValueError:
        local = False
    if not local:
        raise RefusedError(403, "the owner's page is for this machine alone")
