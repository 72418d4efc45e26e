"""Changes of accounts: passwords and tokens. Each returns another account; nothing is written here."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from dpsql.login import entropy
from dpsql.serve.accounts import token_hash
from dpsql.serve.scram import MOST_KEYS, SALT_BYTES, Verifier
from dpsql.serve.user import TOKEN_PREFIX, Account, Token

SHORTEST = 12
"""Characters of the shortest password."""
LONGEST = 256
"""Characters of the longest password; some clients cut longer ones."""
_TOKEN_BYTES = 32
_MOST_TOKENS = MOST_KEYS - 1


def with_password(account: Account, password: str) -> Account:
    """Return the account with another password; `ValueError` for one that cannot be used."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(f"a password has {SHORTEST} to {LONGEST} characters")
    return replace(account, password=Verifier.of(password, _salt(account, keep=bool(account.tokens))))


def with_token(account: Account, identifier: str | None, expires: date | None) -> tuple[Account, str, str]:
    """Return the account with a further token, the token's name and its text, which is stored nowhere."""
    if len(account.tokens) >= _MOST_TOKENS:
        raise ValueError(f"a user has at most {_MOST_TOKENS} tokens: revoke one that is not used")
    taken = {token.id for token in account.tokens}
    chosen = identifier or next(f"k{i}" for i in range(1, len(taken) + 2) if f"k{i}" not in taken)
    if chosen in taken:
        raise ValueError(f"there is a token {chosen!r}")
    if len(chosen) > 63 or not chosen.isprintable():
        raise ValueError("a token's name is 1 to 63 printable characters")
    text = TOKEN_PREFIX + entropy.text(_TOKEN_BYTES)
    verifier = Verifier.of(text, _salt(account, keep=True))
    token = Token(chosen, token_hash(text), verifier, expires)
    return replace(account, tokens=(*account.tokens, token)), chosen, text


def without_token(account: Account, identifier: str) -> Account:
    """Return the account without a token; `ValueError` if there is none of that name."""
    left = tuple(token for token in account.tokens if token.id != identifier)
    if len(left) == len(account.tokens):
        names = ", ".join(token.id for token in account.tokens) or "none"
        raise ValueError(f"there is no token {identifier!r} (there are: {names})")
    return replace(account, tokens=left)


def _salt(account: Account, *, keep: bool) -> bytes:
    """Return the account's salt, which all its passwords share; a new one if there is none to keep."""
    found = account.verifiers(None)
    return found[0].salt if keep and found else entropy.key(SALT_BYTES)
