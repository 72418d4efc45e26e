"""What the server is told: `[serve]` of the policy with its defaults, and what of it deserves a warning."""

from __future__ import annotations

from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.policy import Policy, ServeConfig
from dpsql.policy.load_serving import default_name
from dpsql.policy.serving import USERS
from dpsql.serve.accounts import Users


def of(policy: Policy) -> ServeConfig:
    """Return the policy's `[serve]`, or the defaults beside the policy's file if it has none."""
    if policy.serve is not None:
        return policy.serve
    file = policy.path or Path("dpsql.toml")
    return ServeConfig(name=default_name(file), users=file.parent / USERS)


def users_path(policy: Policy) -> Path:
    """Return the path of the users file."""
    return of(policy).users


def check_users(config: ServeConfig, users: Users) -> None:
    """Raise `PolicyError` if nobody could ever log in."""
    if not len(users):
        raise PolicyError(
            f"{config.users.name}: lists no user, so nobody could log in", hint="`dpsql user add NAME`"
        )


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
