"""Clients of Arrow Flight SQL, unmodified, over TLS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.serve.clients.cookbook import Answered
from tests.serve.clients.drivers import Adbc, _Dbapi
from tests.serve.clients.shop import PASSWORD, Shop
from tests.serve.clients.subject import Refusal

SERVE = """
[serve]
listen = ["127.0.0.1:{wire}"]
name = "shop"
certificate = "dpsql-server.pem"
key = "dpsql-server.key"
[mcp]
listen = "127.0.0.1:{http}"
[flight]
listen = "0.0.0.0:0"
"""


def port(shop: Shop) -> int:
    """Return the port of Flight, as the server has said it."""
    (found,) = re.findall(r"grpc\+tls://0\.0\.0\.0:(\d+)", "\n".join(shop.process.said))
    return int(found)


class AdbcFlight(Adbc):
    """ADBC's driver for Flight SQL."""

    name = "ADBC-FlightSQL"
    packages = ("adbc_driver_flightsql", "pyarrow")
    marker = "?"

    def connect(self, shop: Shop, user: str) -> Any:
        from adbc_driver_flightsql import DatabaseOptions, dbapi

        options = {
            "username": user,
            "password": PASSWORD,
            DatabaseOptions.TLS_ROOT_CERTS.value: shop.certificate.read_text(),
        }
        return dbapi.connect(f"grpc+tls://localhost:{port(shop)}", db_kwargs=options, autocommit=True)

    def refusal(self, error: Any) -> Refusal:
        state = dict(error.details or ()).get(b"dpsql-sqlstate") or dict(error.details).get("dpsql-sqlstate")
        place = re.search(r"\(at character (\d+)\)", str(error))
        found = state.decode() if isinstance(state, bytes) else state
        return Refusal(str(error), found, None if place is None else int(place[1]))


class FlightSqlDbapi(_Dbapi):
    """`flightsql-dbapi`, whose parameters have types of a union; it knows numbers and texts alone."""

    name = "flightsql-dbapi"
    packages = ("flightsql", "google.protobuf", "sqlalchemy")
    marker = "?"

    def client(self, shop: Shop, user: str, **options: Any) -> Any:
        import flightsql

        roots = shop.certificate.read_bytes()
        secured = {"tls_root_certs": roots, "host": "localhost", "port": port(shop)}
        return flightsql.FlightSQLClient(**secured, user=user, password=PASSWORD, **options)

    def connect(self, shop: Shop, user: str) -> Any:
        import flightsql

        return flightsql.connect(self.client(shop, user))

    def ask(self, cursor: Any, text: str, values: Sequence[object] = ()) -> Answered:
        cursor.execute(re.sub(r"\$\d", self.marker, text), values or None)
        # It reads through pandas, which has NaN for NULL.
        rows = [tuple(None if value != value else value for value in row) for row in cursor.fetchall()]  # noqa: PLR0124
        return Answered(tuple(column[0] for column in cursor.description), rows)

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        with self.cursor(shop) as (connection, _):
            return {
                table: [column["name"] for column in connection.flightsql_get_columns(table)]
                for table in connection.flightsql_get_table_names()
            }
