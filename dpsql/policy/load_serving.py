"""Read the tables `[serve]`, `[mcp]`, `[http]` and `[groups]` of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsql.policy.budget import GroupPolicy
from dpsql.policy.keys import KEYS
from dpsql.policy.names import wrong
from dpsql.policy.section import Section
from dpsql.policy.serving import USERS, Address, HttpConfig, McpConfig, ServeConfig


def read_serving(top: Section, file: Path) -> ServeConfig | None:
    """Return what the policy says about the server; None if it has no `[serve]`."""
    if "serve" not in top:
        for name in ("mcp", "http"):
            if name in top:
                raise wrong(name, "is served by the server alone", "write [serve] as well; it may be empty")
        return None
    section = Section(top.raw("serve"), ("serve",), KEYS["[serve]"])
    found: dict[str, Any] = section.simple()
    if "listen" in section:
        found["listen"] = tuple(Address.parse(text, "serve.listen") for text in _texts(section, "listen"))
    if "metrics" in section:
        found["metrics"] = Address.parse(section.raw("metrics"), "serve.metrics")
    for name in ("users", "certificate", "key", "clientcert"):
        if name in section:
            found[name] = _path(section, name, file.parent)
    found.setdefault("users", file.parent / USERS)
    found.setdefault("name", default_name(file))
    return ServeConfig(mcp=_mcp(top), http=_http(top), **found)


def default_name(file: Path) -> str:
    """Return the database's name if the policy gives none: that of its file, as far as it is one."""
    stem = "".join(c for c in file.stem if c.isascii() and c.isprintable())[:63]
    return stem or "dpsql"


def _mcp(top: Section) -> McpConfig:
    section = Section(top.get("mcp", dict, {}), ("mcp",), KEYS["[mcp]"])
    found: dict[str, Any] = section.simple()
    if "listen" in section:
        found["listen"] = address = Address.parse(section.raw("listen"), "mcp.listen")
        if address.socket is not None:
            raise wrong("mcp.listen", "a Unix socket is not served by HTTP", 'write "127.0.0.1:8433"')
    for name in ("allowed_hosts", "allowed_origins"):
        found[name] = tuple(_texts(section, name))
    return McpConfig(**found)


def _http(top: Section) -> HttpConfig:
    section = Section(top.get("http", dict, {}), ("http",), KEYS["[http]"])
    found: dict[str, Any] = {
        name: Address.parse(section.raw(name), f"http.{name}")
        for name in ("listen", "owner")
        if name in section
    }
    for name in ("allowed_hosts", "allowed_origins"):
        found[name] = tuple(_texts(section, name))
    return HttpConfig(**found)


def read_groups(top: Section) -> dict[str, GroupPolicy]:
    """Return the caps on several analysts together, by the group's name."""
    groups = {}
    for name, raw in (top.optional("groups", dict) or {}).items():
        section = Section(raw, ("groups", name), KEYS["[groups.NAME]"])
        section.require("members", 'write members = ["ANALYST", "ANALYST"]')
        section.require("epsilon", "write the most that its members together may spend")
        groups[name] = GroupPolicy(name, members=tuple(_texts(section, "members")), **section.simple())
    return groups


def _texts(section: Section, name: str) -> list[str]:
    listed: list[object] = section.get(name, list, [])
    if not all(isinstance(text, str) and text for text in listed):
        raise wrong(section.place(name), "expected a list of texts")
    return [str(text) for text in listed]


def _path(section: Section, name: str, base: Path) -> Path:
    text = section.get(name, str, "")
    if not text or "\0" in text:
        raise wrong(section.place(name), "expected the path of a file")
    return base / text
