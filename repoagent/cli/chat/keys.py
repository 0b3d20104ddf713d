"""The keys that differ from what the line editor does by itself: Enter sends."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from repoagent.cli.chat.reading import goes_on


def bindings(drop: Callable[[KeyPressEvent], None]) -> KeyBindings:
    """Enter sends, unless a backslash stands before it; Alt-Enter (Esc, Enter) and ^J begin a new line; ^C is
    for `drop`, ^D ends where nothing is typed."""
    keys = KeyBindings()
    typing = has_focus("DEFAULT_BUFFER") & ~is_searching

    @keys.add(Keys.ControlM, filter=typing, eager=True)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if goes_on(buffer.document.text_before_cursor) and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add(Keys.Escape, Keys.ControlM, filter=typing)
    @keys.add(Keys.ControlJ, filter=typing)
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    keys.add(Keys.ControlC, filter=typing)(drop)

    @keys.add(Keys.ControlD, filter=typing & Condition(_is_empty))
    def _end(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError, style="class:exiting")

    return keys


def _is_empty() -> bool:
    from prompt_toolkit.application import get_app

    return not get_app().current_buffer.text
