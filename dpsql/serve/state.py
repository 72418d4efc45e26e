"""What the server reads from files at its start and at each reload: policy, users and certificate."""

from __future__ import annotations

from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, ServeConfig, load
from dpsql.policy.serving import USERS, default_name
from dpsql.serve import tls
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
    config = config_of(policy)
    users = Users.load(config.users)
    if not len(users):
        raise PolicyError(
            f"{config.users.name}: lists no user, so nobody could log in", hint="`dpsql user add NAME`"
        )
    found = warnings(policy, users)
    if config.certificate is not None and config.key is not None:
        secured: tls.Tls | None = tls.load(config.certificate, config.key, config.clientcert)
    else:
        secured = _load_own(config, found)
    if secured is not None and not secured.binding:
        found.append("the certificate's signature has no channel binding: SCRAM-SHA-256-PLUS is not offered")
    return State(policy, config, users, secured, tuple(found))


def _load_own(config: ServeConfig, found: list[str]) -> tls.Tls | None:
    """Return TLS with a certificate of the server's own; None if it cannot make one."""
    try:
        certificate, key = tls.make_self_signed(config.users.parent)
    except ImportError:
        found.append("no TLS: to have a certificate made, install dpsql[serve]; or name one in [serve]")
        return None
    return tls.load(certificate, key, config.clientcert)


def config_of(policy: Policy) -> ServeConfig:
    """Return the policy's `[serve]`, or the defaults beside the policy's file if it has none."""
    if policy.serve is not None:
        return policy.serve
    file = policy.path or Path("dpsql.toml")
    return ServeConfig(name=default_name(file), users=file.parent / USERS)


def users_path(policy: Policy) -> Path:
    """Return the path of the users file."""
    return config_of(policy).users


def warnings(policy: Policy, users: Users) -> list[str]:
    """Return a sentence for each user whose statements would all be refused, or who has no cap alone."""
    found, listed = [], policy.analysts
    for user in users:
        grouped = any(user.analyst in group.members for group in policy.groups.values())
        if user.analyst in listed or "*" in listed:
            continue
        if listed:
            found.append(
                f"user {user.name}: the policy lists its analysts, and {user.analyst} is none of them, so "
                "every statement is refused"
            )
        elif not grouped:
            found.append(
                f"user {user.name}: analyst {user.analyst} has no cap under [analysts] and may spend the "
                "policy's whole budget"
            )
    return found
