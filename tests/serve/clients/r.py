"""R, with the two packages for databases that Debian has."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.serve.clients.cookbook import Answered, Rows
from tests.serve.clients.drivers import WHO, odbc
from tests.serve.clients.programs import Isql, read_tsv, run, shown_place
from tests.serve.clients.questions import LARGE, PARAMETERS, WRONG
from tests.serve.clients.shop import Shop
from tests.serve.clients.subject import Cancelled, Login, NotOffered, Refusal, Subject, conninfo
from tests.serve.clients.watching import tls_of


class RPostgresql(Subject):
    """R with RPostgreSQL, which is libpq."""

    name = "R-RPostgreSQL"
    package = "RPostgreSQL"

    def missing(self) -> str | None:
        if not shutil.which("Rscript"):
            return "not installed: R (r-base-core)"
        asked = f'quit(status = !requireNamespace("{self.package}", quietly = TRUE))'
        done = run(["Rscript", "--vanilla", "-e", asked])
        return f"not installed: r-cran-{self.package.lower()}" if done.returncode else None

    def where(self, shop: Shop) -> str:
        return conninfo(shop)

    def asked(self, shop: Shop, ability: str, *texts: str) -> list[Answered]:
        script = str(Path(__file__).with_name("client.R"))
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"{number}.sql" for number in range(len(texts))]
            for file, text in zip(files, texts, strict=True):
                file.write_text(text)
            command = ["Rscript", "--vanilla", script, self.package, ability, self.where(shop)]
            done = run([*command, *map(str, files)])
        assert done.returncode == 0, done.stderr
        return read_tsv(done.stdout)

    def login(self, shop: Shop) -> Login:
        ((number, user),) = self.asked(shop, "ask", WHO)[0].rows
        return Login(str(user), tls_of(shop, int(str(number))), bound=True)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        return self.asked(shop, "ask", *statements)

    def parameters(self, shop: Shop) -> list[Rows]:
        return [answer.rows for answer in self.asked(shop, "parameters", *(text for text, _ in PARAMETERS))]

    def large(self, shop: Shop) -> int:
        return int(str(self.asked(shop, "large", LARGE)[0].rows[0][0]))

    def refused(self, shop: Shop) -> Refusal:
        text = str(self.asked(shop, "refused", WRONG)[0].rows[0][0])
        return Refusal(text, None, shown_place(text))

    def cancelled(self, shop: Shop) -> Cancelled:
        raise NotOffered("RPostgreSQL waits for libpq, and hears Ctrl-C when the answer is there")

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        tables, columns = self.asked(shop, "browsed")
        found: dict[str, list[str]] = {str(name): [] for (name,) in tables.rows}
        found["visits"] = [str(name) for (name,) in columns.rows]
        return found


class Rodbc(RPostgresql):
    """R with RODBC, on psqlODBC."""

    name = "R-RODBC"
    package = "RODBC"

    def missing(self) -> str | None:
        return super().missing() or Isql().missing()

    def where(self, shop: Shop) -> str:
        return odbc(shop, "alice", password="")

    def parameters(self, shop: Shop) -> list[Rows]:
        raise NotOffered("RODBC has no parameters")

    def refused(self, shop: Shop) -> Refusal:
        text = str(self.asked(shop, "refused", WRONG)[0].rows[0][0])
        return Refusal(text, text.split(maxsplit=1)[0])

    def cancelled(self, shop: Shop) -> Cancelled:
        raise NotOffered("RODBC waits for psqlODBC, and hears Ctrl-C when the answer is there")


R: tuple[Subject, ...] = (RPostgresql(), Rodbc())
