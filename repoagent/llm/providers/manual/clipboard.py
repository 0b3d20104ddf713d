"""The clipboard of whoever sits at the terminal. Nothing here fails, or waits longer than a few seconds."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

TIMEOUT = 5.0  # seconds; pyperclip waits for its programs as long as they take


def put(text: str) -> bool:
    """Put `text` into the clipboard, and whether it is there: pyperclip does not see its programs fail."""
    import pyperclip

    def both_ways() -> str:
        pyperclip.copy(text)
        return str(pyperclip.paste())

    found = _within_time(both_ways)
    return found is not None and found == text.replace("\r\n", "\n")


def get() -> str | None:
    """What is in the clipboard, with `\\n` at the ends of lines; None when it can't be read or is no text."""
    import pyperclip

    return _within_time(lambda: str(pyperclip.paste()))


def _within_time(call: Callable[[], str]) -> str | None:
    found: list[str] = []

    def run() -> None:
        try:
            found.append(call().removeprefix("\ufeff").replace("\r\n", "\n"))
        except Exception:  # noqa: BLE001  # of several kinds, some of them bare, all of which mean that there is none
            return

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    return found[0] if found else None
