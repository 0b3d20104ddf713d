"""The names of conversations: which may be given, which there are.

`.repoagent/conversations/NAME.md` holds the conversation NAME. Names of a reserved form belong to conversations of the
program's own: of edits at work, and of tasks.
"""

from __future__ import annotations

import os
import unicodedata

from repoagent.errors import Refused, UsageError
from repoagent.store import Layout
from repoagent.store.folders import folder

ENDING = ".md"
RESERVED = ("edit-", "kept-", "run-", "chat-")
LONGEST = 200  # bytes of a name; with its ending and that of its lock it is a file name anywhere
_NOT_IN_A_NAME = '/\\:*?"<>|'  # what some file system, or a shell, takes for something else


def checked(name: str) -> str:
    """`name` in its composed form (Unicode NFC), as files are named. Raises UsageError for one that can't be given."""
    name = unicodedata.normalize("NFC", name)
    if why := _wrong(name):
        raise UsageError(f"{name!r} is no name for a conversation: {why}")
    return name


def is_reserved(name: str) -> bool:
    """Whether a conversation of this name is the program's own."""
    return name.casefold().startswith(RESERVED)


def refuse_reserved(name: str) -> None:
    """Raise UsageError for a name that a person may not give."""
    if is_reserved(name):
        forms = ", ".join(f"{form}..." for form in RESERVED)
        raise UsageError(f"the name {name!r} is the program's own (as {forms}): choose another")


def refuse_clash(layout: Layout, name: str) -> None:
    """Raise Refused when there is a conversation whose name differs in case only: on some disks both are one file."""
    folded = name.casefold()
    for other in names(layout):
        if other != name and unicodedata.normalize("NFC", other).casefold() == folded:
            raise Refused(
                f"there is a conversation {other!r}, which differs from {name!r} in case only: choose another name"
            )


def names(layout: Layout) -> list[str]:
    """The names of all conversations that have one, the program's own too, sorted; no file is opened."""
    try:
        with folder(layout.conversations) as opened, os.scandir(opened) as found:
            files = [entry.name for entry in found if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(
        file.removesuffix(ENDING)
        for file in files
        if file.endswith(ENDING) and file != ENDING and not file.startswith(".")
    )


def _wrong(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if name != name.strip() or name.endswith("."):
        return "it may not begin or end with a space, or end with a dot"
    if name.startswith((".", "-")):
        return "it may not begin with a dot or a dash"
    if not name.isprintable():
        return "it holds a character that can't be seen"
    if bad := next((character for character in name if character in _NOT_IN_A_NAME), ""):
        file = "; for that of a file say file:PATH" if bad in "/\\" else ""
        return f"it may not hold {bad}{file}"
    if name.casefold().endswith(ENDING):
        return f"leave its ending {ENDING} out"
    if len(name.encode()) > LONGEST:
        return f"it has more than {LONGEST} bytes"
    return ""
