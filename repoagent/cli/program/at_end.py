"""What is still to be done when a command has ended and said why: those that need it put it here."""

from __future__ import annotations

from collections.abc import Callable

at_end: list[Callable[[], None]] = []
