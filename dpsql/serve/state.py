"""What the server reads from files at its start and at each reload, all or nothing."""

from __future__ import annotations

from pathlib import Path

from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, ServeConfig, load
from dpsql.serve import config as configs
from dpsql.serve import self_signed, tls
from dpsql.serve.accounts import Users


@dataclass(frozen=True, slots=True)
class State:
    """The policy, its `[serve]`, the users and the certificate."""

    policy: Policy
    config: ServeConfig
    users: Users
    tls: tls.Tls | None
    warnings: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        """Whether the certificate was named by the owner, not made by the server."""
        return self.config.certificate is not None


def read(path: Path) -> State:
    """Read everything that the policy names; raises `PolicyError`."""
    policy = load(path)
    config = configs.of(policy)
    users = Users.load(config.users)
    configs.check_users(config, users)
    found = configs.warnings(policy, users)
    if config.certificate is not None and config.key is not None:
        secured: tls.Tls | None = tls.load(config.certificate, config.key, config.clientcert)
    else:
        secured = _made(config, found)
    if secured is not None and not secured.binding:
        found.append("the certificate's signature has no channel binding: SCRAM-SHA-256-PLUS is not offered")
    return State(policy, config, users, secured, tuple(found))


def _made(config: ServeConfig, found: list[str]) -> tls.Tls | None:
    """Return TLS with a certificate of the server's own; None if it cannot make one."""
    try:
        certificate, key = self_signed.make(config.users.parent)
    except ImportError:
        found.append("no TLS: to have a certificate made, install dpsql[serve]; or name one in [serve]")
        return None
    return tls.load(certificate, key, config.clientcert)
