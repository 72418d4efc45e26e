"""What the shell reads its lines from."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """Source of the shell's lines."""

    interactive: bool
    """Whether somebody is there to be asked."""

    def line(self, prompt: str, begun: str) -> str:
        """Return the next line, or several; `begun` is what a statement has so far. `EOFError` at the end."""

    def ask(self, question: str) -> bool:
        """Ask for a yes; anything else is a no."""
