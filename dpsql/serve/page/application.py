"""The application for analysts: its routes, who makes a request, the cookie of a login."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from dpsql.serve.confirm import Confirmations, SpendingRule
from dpsql.serve.page.answers import FORMS, UserRequest
from dpsql.serve.page.guard import MARK, Guard
from dpsql.serve.page.requests import RefusedError, answer, fields, file_routes, refusal_response
from dpsql.serve.page.sign_in import LONGEST, Logins
from dpsql.serve.tls import CLIENT

if TYPE_CHECKING:
    from starlette.requests import Request

    from dpsql.policy import Address, HttpConfig
    from dpsql.serve.gate import Login
    from dpsql.serve.service import Service

FILES = (
    ("/", "index.html"),
    ("/page.css", "page.css"),
    ("/page.js", "page.js"),
    ("/dom.js", "dom.js"),
    ("/editor.js", "editor.js"),
    ("/answer.js", "answer.js"),
    ("/theme.js", "theme.js"),
    ("/icon.svg", "icon.svg"),
    ("/v1/openapi.json", "openapi.json"),
)
MOST_AT_ONCE = 10
"""Requests of one user at the same time."""

Endpoint = Callable[["Request"], Awaitable[Response]]


def hosts_of(address: Address, more: tuple[str, ...] = ()) -> list[str]:
    """Return the values of the header Host that are those of an address."""
    names = ["127.0.0.1", "localhost", "[::1]"] if address.local else [address.host]
    return [*(f"{name}:{address.port}" for name in names), *more]


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


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client is not None else ""


class Pages:
    """The analyst's application. Only the thread of the event loop uses it."""

    def __init__(
        self,
        service: Service,
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._service, self._gate = service, service.gate
        self._logins = Logins(service.gate, log)
        self._confirmations = Confirmations(service.gate.users.secret)
        self._asked: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Return the routes of JSON."""
        return [
            Route("/v1/session", self._guard(self._sign_in), methods=["POST"]),
            Route("/v1/session", self._guard(self._sign_out), methods=["DELETE"]),
            self._asking("/v1/session", UserRequest.who),
            self._asking("/v1/tables", UserRequest.tables),
            self._asking("/v1/language", UserRequest.language),
            self._asking("/v1/budget", UserRequest.budget),
            self._asking("/v1/explain", UserRequest.explain, "POST"),
            self._asking("/v1/query", UserRequest.query, "POST"),
            self._asking("/v1/cancel", UserRequest.cancel, "POST"),
            self._asking("/v1/releases", UserRequest.releases),
            self._asking("/v1/releases/{number}", UserRequest.release),
            *(self._asking(f"/v1/releases/{{number}}/{form}", UserRequest.file) for form in FORMS),
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
        """Return an endpoint that answers its errors."""

        async def guarded(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Exception as problem:  # noqa: BLE001  its text may hold private values
                return refusal_response(problem)

        return guarded

    def _asking(
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
            return found if isinstance(found, Response) else answer(found)

        return Route(path, self._guard(endpoint), methods=[method])

    # -- sessions

    async def _sign_in(self, request: Request) -> Response:
        if MARK.decode() not in request.headers:
            raise RefusedError(
                403, "the header X-Dpsql is missing", "send X-Dpsql: 1, or a token in place of it"
            )
        given = await fields(request, "sign in", name=str, password=str)
        made = await self._logins.sign_in(
            given["name"] or "", given["password"] or "", address_of(request), _certified_name(request)
        )
        self._logins.sign_out(_cookie(request))
        return _with_cookie(request, answer({"user": given["name"], "key": made.key}), made.cookie)

    async def _sign_out(self, request: Request) -> Response:
        self._login(request)
        self._logins.sign_out(_cookie(request))
        return _with_cookie(request, Response(status_code=204), "")


def http_app(
    service: Service,
    address: Address,
    config: HttpConfig,
    log: Callable[[str, Mapping[str, object]], None],
) -> Guard:
    """Return the application of the analysts at an address."""
    routes = [*file_routes(FILES), *Pages(service, log).routes()]
    hosts = hosts_of(address, config.allowed_hosts)
    return Guard(Starlette(routes=routes), routes, hosts, config.allowed_origins)


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
