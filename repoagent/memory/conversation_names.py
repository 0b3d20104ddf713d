"""The names of conversations and where they are stored.

`.repoagent/conversations/NAME.md` contains the conversation NAME; `file:PATH` names the conversation about a file,
which is in the memory of that file. Names with a reserved prefix belong to edits and tasks in progress.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout

ENDING = ".md"
FILE = "file:"
RESERVED = ("edit-", "kept-", "run-", "chat-")
LONGEST = 200  # most bytes of a name; with the endings of file and lock it is a valid file name on any system
_PROBLEMS = (  # what a name may not match, and why; some characters are special to a file system or shell
    (r"\A\s*\Z", "empty"),
    (r"\A\s|[\s.]\Z", "cannot begin or end with a space, or end with a dot"),
    (r"\A[.-]", "cannot begin with a dot or a dash"),
    (r"[/\\]", "cannot contain a slash; use file:PATH for the conversation of a file"),
    (r'[:*?"<>|]', 'cannot contain any of :*?"<>|'),
    (r"(?i)\.md\Z", f"leave out the ending {ENDING}"),
)
Kind = Literal["file", "general", "edit", "run"]


@dataclass(frozen=True)
class ConversationRef:
    """Where a conversation is stored. `name` is what a user types, `key` its name in the log, which stays if the file
    is renamed. `about` is the path of the file that it is about, "" if none."""

    name: str
    kind: Kind
    path: Path
    key: str
    about: str = ""


def checked(name: str) -> str:
    """`name` in composed form (Unicode NFC), as used in file names. Raises UsageError if it is invalid."""
    name = unicodedata.normalize("NFC", name)
    problem = next((why for pattern, why in _PROBLEMS if re.search(pattern, name)), "")
    if not problem and not name.isprintable():
        problem = "contains an unprintable character"
    elif not problem and len(name.encode()) > LONGEST:
        problem = f"longer than {LONGEST} bytes"
    if problem:
        raise UsageError(f"invalid conversation name {name!r}: {problem}")
    return name


def is_reserved(name: str) -> bool:
    """Whether a conversation of this name belongs to the program."""
    return name.casefold().startswith(RESERVED)


def refuse_reserved(name: str) -> None:
    """Raise UsageError for a name that users may not choose."""
    if is_reserved(name):
        forms = ", ".join(f"{form}..." for form in RESERVED)
        raise UsageError(f"the name {name!r} is reserved ({forms}); choose another")


def names(layout: Layout) -> list[str]:
    """The names of all conversations that are not about a file, sorted, including reserved ones. Opens no files."""
    try:
        with open_folder(layout.conversations) as folder, os.scandir(folder) as entries:
            files = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(
        file.removesuffix(ENDING) for file in files if file.endswith(ENDING) and not file.startswith(".")
    )


def named(layout: Layout, name: str, *, own: bool = False) -> ConversationRef:
    """The place of the conversation `name`, which need not exist. Raises UsageError if the name is invalid, or reserved
    and `own`: a user wants to change it."""
    name = checked(name)
    if own:
        refuse_reserved(name)
    return stored_as(layout, name)


def stored_as(layout: Layout, name: str) -> ConversationRef:
    """The place of a conversation with a name from `names`, which is not checked."""
    kind: Kind = "general"
    if is_reserved(name):
        kind = "edit" if name.casefold().startswith(("edit-", "kept-")) else "run"
    return ConversationRef(name, kind, layout.conversations / f"{name}{ENDING}", f"name:{name}")
