"""Conversions between PostgreSQL's types."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.build import Names
from dpsql.serve.catalog.errors import UnknownObject, UnknownQuestion, UnknownType
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.objects import ANALYST, OWNER
from dpsql.serve.catalog.pg_types import NAMED_OIDS, TEXTS, UNKNOWN
from dpsql.serve.catalog.values import Value
from dpsql.tree import literal_sql

_OIDS = frozenset({pg_types.OID, *NAMED_OIDS, pg_types.XID, pg_types.CID})
_VECTORS = frozenset({pg_types.INT2VECTOR, pg_types.OIDVECTOR})


def string(text: str) -> str:
    """Return a text as a literal of DuckDB."""
    if "\x00" in text:
        raise UnknownQuestion("NUL")
    return literal_sql(text)


def cast(sql: str, oid: int) -> str:
    """Return a cast to the DuckDB type that holds a type."""
    return f"CAST({sql} AS {pg_types.duckdb_type(oid)})"


class Casts:
    """Converts expressions; parameters without a type get the first one that they are converted to."""

    def __init__(self, names: Names, decide: Callable[[int, int], None], role: Callable[[], str]) -> None:
        self._names = names
        self._decide = decide
        self._role = role

    def convert(self, value: Value, target: int) -> Value:
        """Return a value as a value of another type."""
        if value.parameter is not None and value.type == UNKNOWN:
            return self._parameter(value, target)
        if value.literal is not None and value.type == UNKNOWN:
            return self._literal(value.literal, target)
        if target in (value.type, UNKNOWN):
            return value
        if value.sql == "NULL":
            return Value(cast("NULL", target), target)
        if target in NAMED_OIDS:
            return self._to_name(value, target)
        if target in TEXTS:
            return Value(self._text(value), target)
        if target in _OIDS and value.type in _OIDS:
            return Value(value.sql, target)
        item, own = pg_types.element(target), pg_types.element(value.type)
        if item is not None and own is not None:
            return Value(self._array(value, own, target, item), target)
        return Value(cast(value.sql, target), target)

    def _parameter(self, value: Value, target: int) -> Value:
        announced = target
        if target in NAMED_OIDS or target in (UNKNOWN, pg_types.CHAR, pg_types.RECORD):
            announced = pg_types.TEXT
        self._decide(value.parameter or 0, announced)
        given = Value(cast(value.sql, announced), announced)
        return given if target in (announced, UNKNOWN) else self.convert(given, target)

    def _literal(self, text: str, target: int) -> Value:
        if target in NAMED_OIDS:
            return Value(f"CAST({self._object(text, target)} AS UINTEGER)", target)
        item = pg_types.element(target)
        if item is not None and target not in _VECTORS and text.strip().startswith("{"):
            parts = [self._item(part, item) for part in array_items(text)]
            return Value(cast(f"[{', '.join(parts)}]", target), target)
        if target in (UNKNOWN, pg_types.TEXT):
            return Value(string(text), target, literal=text if target == UNKNOWN else None)
        if target in TEXTS:
            return Value(string(text[:1] if target == pg_types.CHAR else text), target)
        if target in (pg_types.OID, pg_types.INT2, pg_types.INT4, pg_types.INT8):
            if not text.strip().lstrip("-").isdigit():
                raise UnknownQuestion("not a number")
            return Value(cast(text.strip(), target), target)
        return Value(cast(string(text), target), target)

    def _item(self, text: str | None, item: int) -> str:
        return "NULL" if text is None else self._literal(text, item).sql

    def _object(self, text: str, target: int) -> int:
        """Return the OID of a name in a literal."""
        if text.strip().isdigit():
            return int(text)
        if text.strip() == "-":
            return 0
        key = object_key(text)
        kind = NAMED_OIDS[target]
        if kind == "other":
            raise UnknownQuestion("name of another object")
        if kind == "role":
            return OWNER if key == "dpsql" else ANALYST
        oid = self._names.keys["proc" if kind == "procedure" else kind].get(key)
        if oid is not None:
            return oid
        if kind == "class":
            raise UnknownObject(f'relation "{key}" does not exist')
        raise UnknownType(f'{_KINDS[kind]} "{key}" does not exist')

    def _to_name(self, value: Value, target: int) -> Value:
        if value.type in TEXTS:
            kind = NAMED_OIDS[target]
            if kind in ("other", "procedure"):
                raise UnknownQuestion("name of another object")
            role = f", {self._role()}" if kind == "role" else ""
            return Value(f"{PREFIX}to_reg{kind}({value.sql}{role})", target)
        return Value(cast(value.sql, target), target)

    def _text(self, value: Value) -> str:
        if value.type in TEXTS:
            return value.sql
        if value.type in NAMED_OIDS:
            kind = NAMED_OIDS[value.type]
            role = f", {self._role()}" if kind == "role" else ""
            return f"{PREFIX}show_{kind}({value.sql}{role})"
        if value.type == pg_types.BOOL:
            return f"{PREFIX}show_boolean({value.sql})"
        if value.type in _VECTORS:
            return f"{PREFIX}show_vector({value.sql})"
        item = pg_types.element(value.type)
        if item is not None:
            texts = self._array(value, item, pg_types.array_of(pg_types.TEXT), pg_types.TEXT)
            return f"{PREFIX}show_array({texts})"
        return f"CAST({value.sql} AS VARCHAR)"

    def _array(self, value: Value, own: int, target: int, item: int) -> str:
        if own in NAMED_OIDS and item in TEXTS and NAMED_OIDS[own] != "other":
            if own != pg_types.REGTYPE:
                raise UnknownQuestion("array of names")
            return f"{PREFIX}show_types({value.sql})"
        return cast(value.sql, target)


_KINDS = {"type": "type", "proc": "function", "procedure": "function", "namespace": "schema"}


def object_key(text: str) -> str:
    """Return a name of an object as the look-ups have it: folded where it is not quoted, without quotes.

    >>> object_key('Public."My.Table"')
    'public.My.Table'
    """
    text = text.strip()
    parts, quoted_part, current = [], False, ""
    for character in text:
        if character == '"':
            quoted_part = not quoted_part
        elif character == "." and not quoted_part:
            parts.append(current)
            current = ""
        else:
            current += character if quoted_part else character.lower()
    return ".".join([*parts, current]).partition("(")[0]


def array_items(text: str) -> list[str | None]:
    r"""Return the elements of an array literal of one dimension; None for NULL.

    >>> array_items('{a,"b c",NULL,""}')
    ['a', 'b c', None, '']
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise UnknownQuestion("array literal")
    items: list[str | None] = []
    current, quoted_item, inside, escaped = "", False, False, False
    for character in text[1:-1] + ",":
        if escaped:
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        elif character == '"':
            inside, quoted_item = not inside, True
        elif character == "," and not inside:
            plain = current if quoted_item else current.strip()
            items.append(None if not quoted_item and plain.upper() == "NULL" else plain)
            current, quoted_item = "", False
        elif character in "{}" and not inside:
            raise UnknownQuestion("array of arrays")
        else:
            current += character
    return [] if items == [""] and text[1:-1].strip() == "" else items
