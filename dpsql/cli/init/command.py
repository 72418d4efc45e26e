"""`dpsql init`: writes a policy from names and types alone; asks the owner, or takes flags, for the rest."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode
from dpsql.cli.init.tables import Tables
from dpsql.cli.init.text import policy_text, quoted

if TYPE_CHECKING:
    from dpsql.cli.init.tables import InitOptions

__all__ = ["run"]


def run(policy: str, options: InitOptions) -> ExitCode:
    """Write the policy's file; if it raises `click.UsageError` or `PolicyError`, no file is left."""
    from dpsql.owner import introspect_sources
    from dpsql.policy import load

    path = Path(policy)
    if path.exists() or path.is_symlink():
        raise click.UsageError(f"{policy} is there already, and init never overwrites")
    ask = _asked if sys.stdin.isatty() else None
    tables = Tables(introspect_sources(options.sources), options, ask)
    amounts = dict(options.amounts)
    if "epsilon" not in amounts:
        amounts["epsilon"] = ask("epsilon, all that can ever be spent", "1") if ask else "1"
    amounts = {name: _number(name, text) for name, text in amounts.items()}
    text = policy_text(tables.declared, amounts, path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise click.UsageError(f"cannot write {policy}: {problem.strerror}") from None
    try:
        load(path)
    except BaseException:
        path.unlink()
        raise
    private = sum(table.unit is not None for table in tables.declared)
    narrate.note(
        f"wrote {policy}: {private} private, {len(tables.declared) - private} public; no row was read"
    )
    narrate.note(
        "next: read it, state domains, then `dpsql check` verifies it against the data, for you alone"
    )
    return ExitCode.OK


def _number(name: str, text: str) -> str:
    from dpsql.privacy import exact

    try:
        exact(text)
    except ValueError as problem:
        raise click.UsageError(f"{name}: {problem}") from None
    return text if re.fullmatch(r"\d+(\.\d+)?([eE][-+]?\d+)?", text) else quoted(text)


def _asked(question: str, default: str = "") -> str:
    found: str = click.prompt(question, default=default, show_default=bool(default), err=True)
    return found.strip()
