"""`repoagent memory`: the group, helpers for its commands, and `note`, `edit`, `clear` and `relink`.

The module `memory_list` has `list` and `show`; `memory_archive` has `export`, `import` and `gc`.
"""

from __future__ import annotations

import os
import shlex
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Repository, pass_repository, select_fields
from repoagent.display_text import one_line, plural
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.memory.identity.record import Memory
    from repoagent.memory.lookup import MemoryTarget

COMMANDS = {
    "list": ("memory_list:list_command", "List what is remembered about each file."),
    "show": ("memory_list:show_command", "Show what is remembered about a file."),
    "edit": ("memory:edit_command", "Edit the notes about a file."),
    "note": ("memory:note_command", "Add a note about a file."),
    "clear": ("memory:clear_command", "Clear what is remembered about files, or restore it."),
    "relink": ("memory:relink_command", "Attach a memory to another file."),
    "export": ("memory_archive:export_command", "Export memories to an archive."),
    "import": ("memory_archive:import_command", "Import memories from an archive."),
    "gc": ("memory_archive:gc_command", "Archive memories whose files are gone."),
}
EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory show src/app.py
  repoagent memory note src/app.py "callers rely on the order of the results"

FILE is a path, even of a deleted file, or the name or id of a memory as
`memory list --json` and `memory show` print it."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show, correct and clear what is remembered about files: notes, conversations and edits."""


def find_target_named(repo: Repository, name: str, *, rekey: bool = False) -> MemoryTarget:
    """The file or memory with this name; see `find_target`."""
    from repoagent.memory.lookup import find_target

    return find_target(repo.layout, repo.worktree, name, repo.cwd, warn=repo.terminal.warn, rekey=rekey)


def find_memory(repo: Repository, target: str | MemoryTarget, *, rekey: bool = False) -> Memory:
    """The memory of a file. Raises NothingDone if it has none."""
    from repoagent.memory.lookup import require_memory

    target = find_target_named(repo, target, rekey=rekey) if isinstance(target, str) else target
    return require_memory(repo.layout, repo.worktree, target, warn=repo.terminal.warn)


file_argument = click.argument("file", metavar="FILE", type=click.Path())


def size_text(size: float) -> str:
    """`size` bytes as readable text: 812 B, 12.4 kB, 3.1 MB."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" or size >= 100 else f"{size:.1f} {units[0]}"


def quoted_name(memory: Memory, path: str) -> str:
    """The name of a memory for a command line: its path or, if that is unprintable, its folder."""
    return shlex.quote(path) if path.isprintable() else memory.folder.name


NOTE_EXAMPLES = """\b
Examples:
  repoagent memory note src/app.py "callers rely on the order of the results"
  repoagent memory note src/app.py - < lessons.md

From standard input, each bullet and each paragraph becomes a note. Name code
in `backticks`: when it disappears from the file, the note is marked as stale.

The exit code is 1 if all notes exist already."""


@click.command("note", epilog=NOTE_EXAMPLES)
@file_argument
@click.argument("text", metavar="TEXT|-")
@pass_repository
def note_command(repo: Repository, /, *, file: str, text: str) -> int:
    """Add a note about FILE; later edits of FILE include it in their prompts. `-` reads it from standard input.

    The note is marked as yours, with the date and the file's version. It is never rewritten or archived. Keys and
    tokens in it are masked.
    """
    from repoagent.memory.notes import add_user_notes, check_notes, parse_notes

    texts = [text]
    if text == "-":
        texts = parse_notes(sys.stdin.buffer.read().decode("utf-8", "replace"))
    check_notes(texts)
    target = find_target_named(repo, file, rekey=True)
    memory = target.memory
    moved = memory is not None and memory.identity.path_in(str(repo.worktree.top)) != target.path
    if memory is None or (moved and target.data is not None):
        memory = _remember(repo, target)
    added = add_user_notes(memory, repo.worktree, texts, target.data)
    if added.masked:
        repo.terminal.warn("masked what looks like a key or token in the note")
    sentence = f"already noted: {one_line(added.notes[0].text)}"
    if added.new:
        sentence = f"{plural(added.new, 'note')} added to {repo.shown(memory.notes)}"
    content = {**select_fields(added, "notes", "new"), "file": memory.notes, "masked": added.masked}
    repo.emit(content, notes=[sentence])
    return Exit.DONE if added.new else Exit.NOTHING


def _remember(repo: Repository, target: MemoryTarget) -> Memory:
    """A memory for a file that has none yet, or that was moved."""
    from repoagent.git.worktree import open_at_head
    from repoagent.memory.identity.store import remember_file

    data, head = target.data or b"", open_at_head(repo.cwd)[1]
    return remember_file(repo.layout, repo.worktree, target.path, data, commit=head, warn=repo.terminal.warn)


_EMPTY = b"# Notes\n\n"
EDIT_EXAMPLES = """\b
Examples:
  repoagent memory edit src/app.py
  EDITOR="code --wait" repoagent memory edit src/app.py

If a command writes to the file while you edit, both changes are merged; if
they conflict, your text is saved in another file, and its name is printed.
`repoagent conversation edit file:FILE` edits the conversation."""


@click.command("edit", epilog=EDIT_EXAMPLES)
@file_argument
@pass_repository
def edit_command(repo: Repository, /, *, file: str) -> None:
    """Edit the notes about FILE in your editor: $VISUAL, $EDITOR, or the one that git uses.

    Each bullet and each paragraph is a note. Saving an empty file changes nothing; to remove everything, use
    `memory clear`.
    """
    from repoagent.memory.editing import keep_text, save_notes
    from repoagent.storage.atomic import read_regular
    from repoagent.storage.secrets import mask

    terminal, target = repo.terminal, find_target_named(repo, file, rekey=True)
    memory = target.memory
    before = (read_regular(memory.notes) if memory is not None else None) or b""
    if not (terminal.can_ask or any(os.environ.get(name) for name in ("GIT_EDITOR", "VISUAL", "EDITOR"))):
        instead = "use `repoagent memory note`" if memory is None else f"edit {memory.notes}"
        raise UsageError(f"no terminal for an editor: set EDITOR to a program that needs none, or {instead}")
    text = (before or _EMPTY).decode("utf-8", "surrogateescape")
    saved = terminal.edit_text(text, ".md", cwd=repo.cwd)
    if saved is None:
        raise NothingDone("the editor failed or saved an empty file; nothing was changed")
    if saved == text:
        raise NothingDone("nothing was changed")
    masked = mask(saved)
    if masked != saved:
        terminal.warn("masked what looks like a key or token in the text")
    after = masked.encode("utf-8", "surrogateescape")
    try:
        memory = memory or _remember(repo, target)
        merged = save_notes(memory, repo.worktree, before, after)
    except RepoagentError as error:
        copy = keep_text(memory, "notes.md", after)
        kind = Busy if isinstance(error, Busy) else Refused
        raise kind(f"{error}; your text was saved in {repo.shown(copy)}") from error
    more = "; merged with changes made while you edited" if merged else ""
    content = {"file": memory.notes, "bytes": len(after), "merged": merged}
    repo.emit(content, notes=[f"saved {repo.shown(memory.notes)}{more}"])


CLEAR_EXAMPLES = """\b
Examples:
  repoagent memory clear src/app.py
  repoagent memory clear src/app.py --conversation --yes
  repoagent memory clear --undo src/app.py

Nothing is deleted: cleared entries move to the memory's archive/ folder, where
prompts and searches ignore them; --undo restores the last clear. To delete
them for good, delete that folder. The memory stays attached to its file."""


@click.command("clear", epilog=CLEAR_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--notes", "parts", flag_value="notes", multiple=True, help="Clear only the notes.")
@click.option(
    "--conversation", "parts", flag_value="conversation", multiple=True, help="Clear only the conversation."
)
@click.option("--edits", "parts", flag_value="edits", multiple=True, help="Clear only the list of edits.")
@click.option("--undo", is_flag=True, help="Undo the last clear.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_repository
def clear_command(repo: Repository, /, *, files: tuple[str, ...], **values: Any) -> int:
    """Clear what is remembered about FILEs: move it to the archive."""
    from repoagent.memory import editing

    options = SimpleNamespace(**values)
    if options.undo and options.parts:
        raise UsageError(
            "--undo restores everything that the last clear removed; it cannot be combined with "
            "--notes, --conversation or --edits"
        )
    named = [find_memory(repo, file, rekey=True) for file in files]
    memories = list({memory.folder: memory for memory in named}.values())

    def described(memory: Memory, parts: dict[editing.Part, int], verb: str = "") -> str:
        sizes = ", ".join(f"{part} ({size_text(size)})" for part, size in parts.items())
        return f"{one_line(memory.identity.path)}: {verb}{sizes}"

    done: list[tuple[Memory, editing.ArchivedParts]] = []
    if options.undo:
        for memory in memories:
            if archived := editing.archived_parts(memory):
                editing.restore(memory, archived[-1])
                done.append((memory, archived[-1]))
        if not done:
            raise NothingDone("nothing to restore: nothing was cleared")
        notes, verb = [], "restored "
    else:
        chosen = options.parts or editing.PARTS
        full = [(memory, sizes) for memory in memories if (sizes := editing.part_sizes(memory, chosen))]
        if not full:
            raise NothingDone("nothing to clear")
        if not options.yes:
            for memory, sizes in full:
                repo.terminal.note(described(memory, sizes))
            repo.confirm(
                f"Clear these parts of the memory of {plural(len(full), 'file')}",
                ("move them to the archive", "change nothing"),
                refusal="cannot ask for confirmation with --json or without a terminal; use --yes",
                declined="nothing was cleared",
            )  # fmt: skip
        for memory, _ in full:
            if (archive := editing.clear(memory, chosen)) is not None:
                done.append((memory, archive))
        names = " ".join(quoted_name(memory, memory.identity.path) for memory, _ in full)
        notes, verb = [f"restore it with: repoagent memory clear --undo {names}"], "cleared "
    notes = [*(described(memory, archive.parts, verb) for memory, archive in done), *notes]
    rows = [
        {
            "path": memory.identity.path,
            "memory": memory.folder.name,
            **select_fields(archive, "parts", archive="folder"),
        }
        for memory, archive in done
    ]
    repo.emit({"action": "undo" if options.undo else "clear", "files": rows}, notes=notes)
    return Exit.DONE if rows else Exit.NOTHING


RELINK_EXAMPLES = """\b
Examples:
  repoagent memory relink src/new.py --from src/old.py

The memory named by --from is attached to FILE and detached from its previous
file; swap the two paths to undo that. If FILE's text is new to the memory,
older notes are marked as being about an older version."""


@click.command("relink", epilog=RELINK_EXAMPLES)
@file_argument
@click.option(
    "--from",
    "source",
    metavar="PATH|ID",
    required=True,
    type=click.Path(),
    help="The file whose memory to attach to FILE.",
)
@pass_repository
def relink_command(repo: Repository, /, *, file: str, source: str) -> None:
    """Attach the memory of another file to FILE. `memory show` lists FILE's earlier relinks."""
    from repoagent.memory.identity.store import relink_memory

    memory, path = find_memory(repo, source), repo.relative(file)
    before = memory.identity.path_in(str(repo.worktree.top))
    if before == path and find_target_named(repo, file).memory is not None:
        raise NothingDone(f"{path} already has that memory")
    done = relink_memory(repo.layout, repo.worktree, memory, path, warn=repo.terminal.warn)
    notes = []
    if done.reason.startswith("linked by hand to another text"):
        notes.append(f'{one_line(path)} has different content; old notes are marked "about an older version"')
    notes.append(f"undo it with: repoagent memory relink {shlex.quote(before)} --from {memory.folder.name}")
    content = {"memory": memory.folder.name, "before": before, "path": path, "reason": done.reason}
    sentence = f"attached the memory of {one_line(before)} to {one_line(path)}"
    repo.emit(content, [sentence], notes=notes)
