"""What the tests share to say which type a value has where the product's declared type is wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.prepared import Prepared, PreparedPrivate

if TYPE_CHECKING:
    from dpsql.engines import Engine
    from dpsql.session import Session

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value, and fail where there is none."""
    assert value is not None
    return value


def of_type(value: object, kind: type[T]) -> T:
    """Return the value, and fail where it is of another type."""
    assert isinstance(value, kind)
    return value


def private(prepared: Prepared) -> PreparedPrivate:
    """Return a prepared statement that reads private tables, and fail where it is another."""
    return of_type(prepared, PreparedPrivate)


def engine_of(session: Session) -> Engine:
    """Return the engine that the session's next statement uses."""
    return session.database.engines().engine


def analysed_blocks(session: Session) -> AnalysedBlocks:
    """Return what analyses the blocks of a session's next statement."""
    return AnalysedBlocks(session.policy, engine_of(session).schema_database, session.defaults)


def replace_engine(session: Session, engine: object) -> None:
    """Let the session use another engine, until its files change."""
    object.__setattr__(session.database.engines(), "engine", engine)
