"""Name, find, read and list conversations.

`.repoagent/conversations/NAME.md` contains the conversation NAME; `file:PATH` names the conversation about a file,
which is stored in that file's memory. Names with a reserved prefix belong to edits and tasks in progress. A copy of a
file's conversation names the file in a line before the first turn, which the parser ignores:

    about: "src/app.py"
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import no_such_file
from repoagent.git.worktree import WorkTree
from repoagent.llm import conversation as file_format
from repoagent.memory.identity.store import memory_paths, remember_file
from repoagent.memory.lookup import find_target
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import lock_holder

ENDING = ".md"
FILE = "file:"
RESERVED = ("edit-", "kept-", "run-", "chat-")
LONGEST = 200  # most bytes of a name; with the endings of file and lock it is a valid file name on any system
# some characters are special to a file system or a shell
_NAME = re.compile(r"""(?i)(?![.\s-])[^/\\:*?"<>|]+(?<![.\s])(?<!\.md)""")


@dataclass(frozen=True)
class ConversationRef:
    """Where a conversation is stored. `name` is what a user types, `key` its name in the log, which stays the same if
    the file is renamed. `about` is the path of the file it is about, "" if none."""

    name: str
    kind: Literal["file", "general", "edit", "run"]
    path: Path
    key: str
    about: str = ""


def check_name(name: str) -> str:
    """`name` in composed form (Unicode NFC), as used in file names. Raises UsageError if it is invalid."""
    name = unicodedata.normalize("NFC", name)
    if not (_NAME.fullmatch(name) and name.isprintable() and len(name.encode()) <= LONGEST):
        raise UsageError(
            f"invalid conversation name {name!r}: it cannot be empty, contain unprintable characters or any of "
            f'/\\:*?"<>|, begin with a dot, dash or space, end with a dot, space or {ENDING}, or be longer than '
            f"{LONGEST} bytes; use file:PATH for the conversation about a file"
        )
    return name


def is_reserved(name: str) -> bool:
    """Whether a conversation with this name belongs to repoagent itself."""
    return name.casefold().startswith(RESERVED)


def refuse_reserved(name: str) -> None:
    """Raise UsageError for a name that users may not choose."""
    if is_reserved(name):
        forms = ", ".join(RESERVED[:-1]) + f" or {RESERVED[-1]}"
        raise UsageError(f"{name!r} is reserved, like all names that begin with {forms}; choose another")


def conversation_names(layout: Layout) -> list[str]:
    """The names of all conversations that are not about a file, sorted, including reserved ones. Opens no files."""
    try:
        with open_folder(layout.conversations) as folder, os.scandir(folder) as dir_entries:
            files = [entry.name for entry in dir_entries if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(
        file.removesuffix(ENDING) for file in files if file.endswith(ENDING) and not file.startswith(".")
    )


def conversation_named(layout: Layout, name: str, *, own: bool = False) -> ConversationRef:
    """Return the conversation `name`, which need not exist.

    Raises UsageError if the name is invalid, or if it is reserved and `own` is set.
    """
    name = check_name(name)
    if own:
        refuse_reserved(name)
    return _stored_as(layout, name)


def _stored_as(layout: Layout, name: str) -> ConversationRef:
    path, key = layout.conversations / f"{name}{ENDING}", f"name:{name}"
    if not is_reserved(name):
        return ConversationRef(name, "general", path, key)
    is_edit = name.casefold().startswith(("edit-", "kept-"))
    return ConversationRef(name, "edit" if is_edit else "run", path, key)


def _of_folder(layout: Layout, folder: str, path: str) -> ConversationRef:
    """The conversation about the file `path` with the memory in `folder`."""
    file = layout.memory / folder / "conversation.md"
    return ConversationRef(f"{FILE}{path}", "file", file, f"memory:{folder}", path)


def last_spoken(layout: Layout, *, warn: Warn = to_stderr) -> ConversationRef | None:
    """The most recently changed conversation about any file; None if there is none."""
    times: list[tuple[int, str, str]] = []
    for path, folder in memory_paths(layout, warn=warn):
        with suppress(OSError):
            status = (layout.memory / folder / "conversation.md").lstat()
            times.append((status.st_mtime_ns, path, folder))
    _, path, folder = max(times, default=(0, "", ""))
    return _of_folder(layout, folder, path) if folder else None


@dataclass(frozen=True)
class ConversationResolver:
    """Resolves the conversation names that a user types in the folder `cwd`.

    `why_not` returns the reason why a file may not be read, or "" if it may.
    """

    layout: Layout
    worktree: WorkTree
    cwd: Path
    why_not: Callable[[str], str] = lambda path: ""
    warn: Warn = to_stderr

    def ref(self, text: str, *, own: bool = False) -> ConversationRef:
        """Return the conversation that `text` names as NAME or file:PATH.

        Raises UsageError for an invalid name, and what `file` raises.
        """
        if text.startswith(FILE):
            return self.file(text)
        return conversation_named(self.layout, text, own=own)

    def file(self, path: str, *, make: bool = False) -> ConversationRef:
        """Return the conversation about the file `path`, relative to `cwd` or else to the top of the work tree.

        With `make`, a memory is created if the file has none. The conversation of a deleted file is found by its path.
        Raises Refused if there is no memory or the file may not be read, and what `find_target` raises.
        """
        path = path.removeprefix(FILE)
        if not path:
            raise UsageError("missing file name: use file:PATH")
        layout, worktree = self.layout, self.worktree
        target = find_target(layout, worktree, path, self.cwd, warn=self.warn, rekey=True)
        if reason := self.why_not(target.path):
            raise Refused(reason)
        if make and target.data is None:
            raise no_such_file(target.path, worktree.top)
        memory = target.memory
        if memory is None and make and target.data is not None:
            memory = remember_file(layout, worktree, target.path, target.data, warn=self.warn)
        if memory is None:
            raise Refused(f"no conversation about {target.path} yet")
        return _of_folder(layout, memory.folder.name, target.path)


@dataclass(frozen=True)
class StoredConversation:
    """A conversation that was read: its bytes and its turns."""

    ref: ConversationRef
    data: bytes
    conversation: file_format.Conversation

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "surrogateescape")


def find_conversation(at: ConversationResolver, text: str, *, own: bool = False) -> StoredConversation:
    """Read the conversation that `text` names. Raises UsageError if there is none, and what `read_stored` raises."""
    ref = at.ref(text, own=own)
    stored = read_stored(ref)
    if stored is None:
        raise no_such_conversation(at.layout, ref)
    return stored


def read_stored(ref: ConversationRef) -> StoredConversation | None:
    """Read the conversation in `ref`; None if there is none. Raises what `read_conversation` raises."""
    data = read_regular(ref.path)
    return None if data is None else parse_stored(ref, data)


def parse_stored(ref: ConversationRef, data: bytes) -> StoredConversation:
    """Parse `data` as the conversation `ref`. Raises BrokenConversation or NewerConversation, whose message has the
    path."""
    try:
        return StoredConversation(ref, data, file_format.loads(data.decode("utf-8", "surrogateescape")))
    except (file_format.BrokenConversation, file_format.NewerConversation) as error:
        raise type(error)(f"{ref.path}: {error}") from error


def no_such_conversation(layout: Layout, ref: ConversationRef) -> UsageError:
    """The error for a conversation that does not exist."""
    if ref.kind == "file":
        return UsageError(f"no conversation about {ref.about} yet")
    from repoagent.memory.conversation_log import REDO, UNDO, logged_changes

    with suppress(Refused):  # a log of a newer repoagent
        last = next((change for change in reversed(logged_changes(layout)) if change.key == ref.key), None)
        if last is not None and not last.after:
            restore = f"repoagent conversation {REDO if last.command == UNDO else UNDO} {quote(ref.name)}"
            return UsageError(f"conversation {ref.name!r} was deleted; restore it with `{restore}`")
    near = get_close_matches(ref.name, conversation_names(layout), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`repoagent conversation list` lists all"
    return UsageError(f"no conversation {ref.name!r}; {hint}")


_REACH = 4_000  # characters at the beginning that are searched for the line
_LINE = re.compile(r'(?m)^about: (".*")[ \t]*\r?\n(?:\r?\n)?')


def head_of(text: str) -> str:
    """The text before the first turn. Raises what `llm.conversation.loads` raises."""
    return text[: next(iter(file_format.turn_offsets(text)), len(text))]


def about_of(text: str) -> str:
    """The path in the `about` line; "" if there is none. Raises what `llm.conversation.loads` raises."""
    if '\nabout: "' not in text[:_REACH]:  # most have none, and finding the first turn is slow
        return ""
    line = _LINE.search(head_of(text))
    try:
        return str(json.loads(line[1])) if line else ""
    except ValueError:
        return ""


def with_about(text: str, path: str) -> str:
    """`text` with its `about` line set to `path`."""
    head = head_of(text)
    title, _, rest = head.partition("\n")
    rest = _LINE.sub("", rest, count=1).lstrip("\n")
    return f"{title}\n\nabout: {json.dumps(path, ensure_ascii=False)}\n\n{rest}{text[len(head) :]}"


@dataclass(frozen=True)
class ConversationEntry:
    """One conversation in a list.

    size: the size in bytes.
    last: the ISO 8601 time of the last turn that has one.
    state: for an edit, "at work", "unfinished" (the same request resumes it) or "kept"; else "".
    problem: the error if the conversation cannot be read, else "".
    about: the file that the conversation is, or was, about.
    """

    ref: ConversationRef
    turns: int = 0
    size: int = 0
    last: str = ""
    state: str = ""
    problem: str = ""
    about: str = ""


def list_conversations(
    layout: Layout, *, files: bool = False, warn: Warn = to_stderr
) -> list[ConversationEntry]:
    """All conversations by name, including broken ones; with `files`, also those about files, by path."""
    refs = [_stored_as(layout, name) for name in conversation_names(layout)]
    if files:
        refs += [_of_folder(layout, folder, path) for path, folder in memory_paths(layout, warn=warn)]
    result = []
    for ref in refs:
        try:
            stored = read_stored(ref)
        except Refused as error:  # broken, of a newer format, a link, unreadable
            problem = str(error).removeprefix(f"{ref.path}: ").replace(f"{ref.path} ", "it ")
            size = ref.path.lstat().st_size if os.path.lexists(ref.path) else 0
            result.append(ConversationEntry(ref, size=size, problem=problem, about=ref.about))
            continue
        if stored is None:
            continue
        turns, state = stored.conversation.turns, ""
        last = next((turn.meta["time"] for turn in reversed(turns) if "time" in turn.meta), "")
        if ref.name.casefold().startswith("kept-"):
            state = "kept"
        elif ref.kind == "edit":
            state = "at work" if lock_holder(layout.locks / ref.name) else "unfinished"
        about = ref.about or about_of(stored.text)
        result.append(ConversationEntry(ref, len(turns), len(stored.data), last, state, "", about))
    return result
