"""Hash the parts of a policy that answers depend on; changed parts prevent the reuse of a stored release."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path


def fingerprint(content: Iterable[object], folder: Path | None) -> str:
    """Return the SHA-256 of parts of a policy; `folder` is the policy's, to which paths are taken relative.

    So formatting, comments and the location of the folder do not change it.
    """
    text = json.dumps(_plain(["1", *content], folder), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(thing: object, base: Path | None) -> object:
    """Return a value as nested lists of texts, each with its type, so that different values differ."""
    if isinstance(thing, (list, tuple)):
        return [_plain(item, base) for item in thing]
    if isinstance(thing, Mapping):
        return [[str(name), _plain(item, base)] for name, item in thing.items()]
    if isinstance(thing, Path):
        return ["path", Path(os.path.relpath(thing, base)).as_posix() if base else thing.as_posix()]
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = [_plain(getattr(thing, f.name), base) for f in dataclasses.fields(thing)]
        return [type(thing).__name__, *parts]
    return [type(thing).__name__, str(thing)]
