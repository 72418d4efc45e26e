"""Pages for people, and the JSON over HTTP beneath them: the analyst's application, and who makes a request.

``answers`` reads requests and writes answers as JSON: exact rows, and how people read them; ``owner`` is the
owner's application.

Logins: people sign in by a password; `Logins` keeps each login under a random cookie and a random key. A
browser sends a cookie to every port of a host, so whoever serves another page there gets it. The key is kept
by the page itself, which no other origin can read; the cookie is of no use without it, nor is the key without
the cookie, which no script reads.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from dpsql.lazy_dataclass import dataclass
from dpsql.login import draw_text
from dpsql.serve.gate import network
from dpsql.serve.http import MARK, HttpFront, RequestGuard, hosts_of
from dpsql.serve.page.answers import (
    FORMS,
    RefusedError,
    UserRequest,
    address_of,
    file_routes,
    hash_secret,
    json_response,
    read_fields,
    refusal_response,
)
from dpsql.serve.page.owner import OwnerFront, link_file
from dpsql.serve.state import CLIENT
from dpsql.serve.statement_service import Confirmations, SpendingRule

if TYPE_CHECKING:
    from starlette.requests import Request

    from dpsql.login.scram import ScramKeys
    from dpsql.policy import Address, HttpConfig
    from dpsql.serve.gate import Gate, Login
    from dpsql.serve.service import Service
    from dpsql.serve.state import State

IDLE = 3_600.0
"""Seconds without a request after which a login ends."""
LONGEST = 43_200.0
"""Seconds after which it ends in any case."""
MOST = 20
"""Logins of one user; another one ends the one that was used least recently."""
_AT_ONCE = 5
"""Attempts by one name from one network that wait at the same time."""
_NAME, _PASSWORD = 200, 1_024
"""The most characters of a name and of a password."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a browser is given for a login: a cookie, and the key that the page sends in a header."""

    cookie: str
    key: str


@dataclass(slots=True)
class SignedIn:
    """A browser that is signed in."""

    login: Login
    key: bytes
    """The hash of the key."""
    began: float
    seen: float


class Logins:
    """The logins of the browsers. Only the thread of the event loop uses it."""

    def __init__(
        self,
        gate: Gate,
        log: Callable[[str, Mapping[str, object]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._log = log
        self._clock = clock
        self._logins: dict[bytes, SignedIn] = {}
        """By the hash of the cookie, so that no time tells anything of one."""
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._hashing = asyncio.Semaphore(1)
        """A password is hashed here, not by the client: strangers take one processor with that at most."""

    async def sign_in(self, name: str, password: str, address: str, certified: str | None) -> Secrets:
        """Return cookie and key of a new login; raises `RefusedError`, with one text for all that is wrong.

        `certified` is the name in the client's certificate, if one is needed.
        """
        at = name[:_NAME], network(address)
        if self._waiting[at] >= _AT_ONCE:
            raise RefusedError(429, "too many attempts at the same time", "wait until they are answered")
        self._waiting[at] += 1
        try:
            await asyncio.sleep(self._gate.delay(name, address))
            keys = await self._match(name, password)
        finally:
            self._waiting[at] -= 1
            if not self._waiting[at]:
                del self._waiting[at]
        login = self._gate.login(name, address, keys, certified)
        if login is None:
            fields = {"address": address, "protocol": "http", "reason": "wrong password", "outcome": "28P01"}
            self._log("handshake failed", fields | self._gate.log_field(name))
            raise RefusedError(401, "name or password is wrong")
        fields = {"user": name, "analyst": login.analyst, "address": address, "protocol": "http"}
        self._log("connected", fields)
        return self._new(login)

    async def _match(self, name: str, password: str) -> ScramKeys | None:
        if len(name) > _NAME or len(password) > _PASSWORD:
            return None
        verifier = self._gate.verifier(name)
        async with self._hashing:
            return await asyncio.to_thread(verifier.match, password)  # it takes milliseconds on purpose

    def _new(self, login: Login) -> Secrets:
        now, made = self._clock(), Secrets(draw_text(32), draw_text(32))
        self._logins = {key: each for key, each in self._logins.items() if not _has_ended(each, now)}
        name = login.user.name
        own = sorted((each.seen, key) for key, each in self._logins.items() if each.login.user.name == name)
        for _, key in own[: max(0, len(own) - MOST + 1)]:
            del self._logins[key]
        self._logins[hash_secret(made.cookie)] = SignedIn(login, hash_secret(made.key), now, now)
        return made

    def login(self, cookie: str, key: str) -> Login | None:
        """Return the login of a cookie and a key; None if the login has ended or is no longer valid."""
        found, now = self._logins.get(hash_secret(cookie)), self._clock()
        if found is None or not hmac.compare_digest(found.key, hash_secret(key)):
            return None
        if _has_ended(found, now) or not self._gate.holds(found.login):
            self.sign_out(cookie)
            return None
        found.seen = now
        return found.login

    def sign_out(self, cookie: str) -> None:
        """End the login of a cookie."""
        self._logins.pop(hash_secret(cookie), None)


def _has_ended(login: SignedIn, now: float) -> bool:
    return now - login.seen > IDLE or now - login.began > LONGEST


FILES = (
    ("/", "index.html"),
    ("/page.css", "page.css"),
    ("/page.js", "page.js"),
    ("/dom.js", "dom.js"),
    ("/editor.js", "editor.js"),
    ("/answer.js", "answer.js"),
    ("/theme.js", "theme.js"),
    ("/pages.js", "pages.js"),
    ("/icon.svg", "icon.svg"),
    ("/v1/openapi.json", "openapi.json"),
)
MOST_AT_ONCE = 10
"""Requests of one user at the same time."""

Endpoint = Callable[["Request"], Awaitable[Response]]


def _with_cookie(request: Request, made: Response, value: str) -> Response:
    """Keep a cookie that no script reads, and that other sites' pages never send; empty: take it away."""
    made.set_cookie(
        _cookie_name(request),
        value,
        max_age=int(LONGEST) if value else 0,
        path="/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )
    return made


def _is_encrypted(request: Request) -> bool:
    """Whether the browser is connected by TLS, here or at a proxy that the policy names."""
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")


class Pages:
    """The analyst's application. Only the thread of the event loop uses it."""

    def __init__(self, service: Service, log: Callable[[str, Mapping[str, object]], None]) -> None:
        self._service, self._gate = service, service.gate
        self._logins = Logins(service.gate, log)
        self._confirmations = Confirmations(service.gate.users.secret)
        self._asked: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Return the routes of JSON."""
        return [
            Route("/v1/session", self._guard(self._sign_in), methods=["POST"]),
            Route("/v1/session", self._guard(self._sign_out), methods=["DELETE"]),
            self._make_route("/v1/session", UserRequest.who),
            self._make_route("/v1/tables", UserRequest.tables),
            self._make_route("/v1/language", UserRequest.language),
            self._make_route("/v1/budget", UserRequest.budget),
            self._make_route("/v1/explain", UserRequest.explain, "POST"),
            self._make_route("/v1/query", UserRequest.query, "POST"),
            self._make_route("/v1/cancel", UserRequest.cancel, "POST"),
            self._make_route("/v1/releases", UserRequest.releases),
            self._make_route("/v1/releases/{number}", UserRequest.release),
            *(self._make_route(f"/v1/releases/{{number}}/{form}", UserRequest.file) for form in FORMS),
        ]

    # -- who asks

    def _login(self, request: Request) -> Login:
        """Return whose request it is, by its token or its cookie; raises `RefusedError`."""
        given = request.headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            login = self._gate.by_token(token.strip()) if scheme.lower() == "bearer" else None
        else:
            login = self._logins.login(_cookie(request), request.headers.get(MARK.decode(), ""))
        certified = _certified_name(request)
        if login is None or (certified is not None and certified != login.user.name):
            hint = "sign in, or send Authorization: Bearer TOKEN"
            raise RefusedError(401, "nobody is signed in", hint)
        return login

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that answers errors as JSON."""

        async def answer_errors(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Exception as problem:  # noqa: BLE001  its text may hold private values
                return refusal_response(problem)

        return answer_errors

    def _make_route(
        self, path: str, ask: Callable[[UserRequest], Awaitable[object]], method: str = "GET"
    ) -> Route:
        """Return the route of what a user asks."""

        async def endpoint(request: Request) -> Response:
            login = self._login(request)
            user = self._gate.user(login)
            if self._asked[user.name] >= MOST_AT_ONCE:
                raise RefusedError(429, "too many requests at the same time", "wait until they are answered")
            self._asked[user.name] += 1
            try:
                free, asks = (self._service.client_of(login, "http", lane) for lane in ("free", "asks"))
                rule = SpendingRule(self._confirmations, user.free_below)
                found = await ask(UserRequest(request, login, free, asks, rule))
            finally:
                self._asked[user.name] -= 1
            return found if isinstance(found, Response) else json_response(found)

        return Route(path, self._guard(endpoint), methods=[method])

    # -- sessions

    async def _sign_in(self, request: Request) -> Response:
        if MARK.decode() not in request.headers:
            raise RefusedError(
                403, "the header X-Dpsql is missing", "send X-Dpsql: 1, or a token in place of it"
            )
        given = await read_fields(request, "sign in", name=str, password=str)
        made = await self._logins.sign_in(
            given["name"] or "", given["password"] or "", address_of(request), _certified_name(request)
        )
        self._logins.sign_out(_cookie(request))
        return _with_cookie(request, json_response({"user": given["name"], "key": made.key}), made.cookie)

    async def _sign_out(self, request: Request) -> Response:
        self._login(request)
        self._logins.sign_out(_cookie(request))
        return _with_cookie(request, Response(status_code=204), "")


def make_fronts(
    state: State, service: Service, log: Callable[[str, Mapping[str, object]], None]
) -> list[HttpFront]:
    """Return the servers of the analysts' and the owner's pages, at the addresses of `[http]`."""
    config, fronts = state.config.http, list[HttpFront]()
    if config.listen is not None:
        fronts.append(
            HttpFront(lambda bound: http_app(service, bound, config, log), config.listen, state.tls, "/")
        )
    if config.owner is not None:
        fronts.append(OwnerFront(service, config.owner, link_file(state.config.users)))
    return fronts


def http_app(
    service: Service, address: Address, config: HttpConfig, log: Callable[[str, Mapping[str, object]], None]
) -> RequestGuard:
    """Return the application of the analysts at an address."""
    routes = [*file_routes(FILES), *Pages(service, log).routes()]
    hosts = hosts_of(address, config.allowed_hosts)
    return RequestGuard(Starlette(routes=routes), routes, hosts, config.allowed_origins)


def _cookie_name(request: Request) -> str:
    """Return the cookie's name: by its prefix, no other name of the same site can set it over TLS."""
    return "__Host-dpsql" if _is_encrypted(request) else "dpsql"


def _cookie(request: Request) -> str:
    given = request.cookies
    return given.get("__Host-dpsql") or ("" if request.url.scheme == "https" else given.get("dpsql", ""))


def _certified_name(request: Request) -> str | None:
    """Return the name in the client's certificate; None if none is asked for."""
    state = request.scope.get("state") or {}
    return state.get(CLIENT, "") if CLIENT in state else None
