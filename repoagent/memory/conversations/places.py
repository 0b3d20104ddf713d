"""What a person names on the command line: a conversation by its name, or that of a file as `file:PATH`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import BrokenConversation, Conversation, NewerConversation, loads
from repoagent.memory.conversations.names import ENDING, checked, is_reserved, names, refuse_reserved
from repoagent.memory.conversations.past import REDO, UNDO, changes
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.remember import listing, remember, resolve
from repoagent.repo.missing import no_such_file
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree, relative
from repoagent.store import Layout, Warn, read_regular, to_stderr

FILE = "file:"
Kind = Literal["file", "general", "edit", "run"]


@dataclass(frozen=True)
class Place:
    """Where a conversation stands. `name` is what a person calls it, `key` what the past knows it by: it stays when a
    file is renamed. `about` is the path of the file that it is about, "" for none."""

    name: str
    kind: Kind
    path: Path
    key: str
    about: str = ""


@dataclass(frozen=True)
class Held:
    """What stands in a place: the bytes, the same as text, and what is said in it."""

    place: Place
    data: bytes
    conversation: Conversation

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "surrogateescape")


def named(layout: Layout, name: str, *, own: bool = False) -> Place:
    """The place of the conversation `name`, whether it is there or not. With `own` a person wants to change it, and a
    reserved name is refused. Raises UsageError."""
    name = checked(name)
    if own:
        refuse_reserved(name)
    return Place(name, kind_of(name), layout.conversations / f"{name}{ENDING}", f"name:{name}")


def kind_of(name: str) -> Kind:
    """What a name alone tells of a conversation."""
    if not is_reserved(name):
        return "general"
    return "edit" if name.casefold().startswith(("edit-", "kept-")) else "run"


def of_memory(memory: Memory, path: str) -> Place:
    """The conversation about the file `path`, which has this memory."""
    return Place(f"{FILE}{path}", "file", memory.conversation, f"memory:{memory.folder.name}", path)


def of_file(
    layout: Layout, worktree: WorkTree, path: str, *, make: bool = False, warn: Warn = to_stderr
) -> Place:
    """The conversation about the file `path` (relative to the top), found as every memory is: by what the file is,
    never by its name alone. With `make` a file without a memory is given one.

    Of a file that is gone it is that of the memory that says so. Raises Refused where nothing is remembered of it or
    it may not be read, UsageError where there is no such file.
    """
    data = read_source(worktree, path).data
    if data is None:
        folders = [name for at, name in listing(layout, warn=warn) if at == path]
        if make or not folders:
            raise no_such_file(path, worktree.top)
        if len(folders) > 1:
            raise Refused(
                f"{path} is gone, and {len(folders)} memories are of a file of that name: bring the file back first"
            )
        folder = layout.memory / folders[0]
        return Place(f"{FILE}{path}", "file", folder / "conversation.md", f"memory:{folders[0]}", path)
    memory = resolve(layout, worktree, path, data, warn=warn)
    if memory is None and make:
        memory = remember(layout, worktree, path, data, warn=warn)
    if memory is None:
        raise Refused(f"nothing is remembered of {path} yet: there is no conversation about it")
    return of_memory(memory, path)


def last_spoken(layout: Layout, *, warn: Warn = to_stderr) -> Place | None:
    """The conversation about a file that was written to last; None where there is none."""
    found: list[tuple[int, str, str]] = []
    for path, folder in listing(layout, warn=warn):
        try:
            status = (layout.memory / folder / "conversation.md").lstat()
        except OSError:
            continue
        found.append((status.st_mtime_ns, path, folder))
    if not found:
        return None
    _, path, folder = max(found)
    return Place(
        f"{FILE}{path}", "file", layout.memory / folder / "conversation.md", f"memory:{folder}", path
    )


@dataclass(frozen=True)
class Here:
    """Where a person stands: what a word that they write for a conversation means. `why_not` says why a file is not to
    be read, "" for one that may be."""

    layout: Layout
    worktree: WorkTree
    cwd: Path
    why_not: Callable[[str], str]
    warn: Warn = to_stderr

    def place(self, text: str, *, own: bool = False) -> Place:
        """The place that `text` names, NAME or file:PATH. Raises UsageError and Refused."""
        if text.startswith(FILE):
            path = text.removeprefix(FILE)
            return self.file(f"./{path}" if path.startswith(FILE) else path)
        return named(self.layout, text, own=own)

    def file(self, path: str, *, make: bool = False) -> Place:
        """The place of the conversation about the file `path`, as written here, or else from the top."""
        if not path:
            raise UsageError("say which file: file:PATH")
        path = path.removeprefix(FILE)
        try:
            return self._file(path, self.cwd, make=make)
        except UsageError:
            if self.cwd != self.worktree.top and not path.startswith((".", "/")):
                with suppress(UsageError):  # what is said is of the folder the person is in
                    return self._file(path, self.worktree.top, make=make)
            raise

    def _file(self, path: str, cwd: Path, *, make: bool) -> Place:
        inside = relative(self.worktree, path, cwd)
        if reason := self.why_not(inside):
            raise Refused(reason)
        return of_file(self.layout, self.worktree, inside, make=make, warn=self.warn)


def here(
    layout: Layout,
    worktree: WorkTree,
    cwd: Path,
    *,
    why_not: Callable[[str], str] = lambda path: "",
    warn: Warn = to_stderr,
) -> Here:
    """How words for conversations are read in the folder `cwd`."""
    return Here(layout, worktree, cwd, why_not, warn)


def find(at: Here, text: str, *, own: bool = False) -> Held:
    """What stands in the place that `text` names. Raises UsageError where nothing does, and as `held`."""
    place = at.place(text, own=own)
    found = held(place)
    if found is None:
        raise missing(at.layout, place)
    return found


def held(place: Place) -> Held | None:
    """What stands in `place`, None for nothing. Raises as `llm.conversation.read` does."""
    data = read_regular(place.path)
    return None if data is None else parsed(place, data)


def parsed(place: Place, data: bytes) -> Held:
    """`data` as what stands in `place`. Raises BrokenConversation and NewerConversation, with the file's name."""
    try:
        return Held(place, data, loads(data.decode("utf-8", "surrogateescape")))
    except (BrokenConversation, NewerConversation) as error:
        raise type(error)(f"{place.path}: {error}") from error


def missing(layout: Layout, place: Place) -> UsageError:
    """The sentence for a conversation that is not there."""
    if place.kind == "file":
        return UsageError(f"nothing was said about {place.about} yet: there is no conversation about it")
    with suppress(Refused):  # what a newer repoagent has changed
        mine = [one for one in changes(layout) if one.key == place.key]
        if mine and not mine[-1].after:  # a command has put it away
            way = REDO if mine[-1].command == UNDO else UNDO
            return UsageError(
                f"there is no conversation {place.name!r} any more; `repoagent conversation {way} "
                f"{quote(place.name)}` brings it back"
            )
    near = get_close_matches(place.name, names(layout), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`repoagent conversation list` shows all"
    return UsageError(f"there is no conversation {place.name!r}; {hint}")
