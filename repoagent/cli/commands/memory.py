"""`repoagent memory`: the group, helpers of its commands, and `note`, `edit`, `clear`, `relink` and `status`.

The module memory_list has `list` and `show`, memory_archive `export`, `import`, `gc` and `compact`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.repository import Repository, pass_repository
from repoagent.cli.session import select, write_json
from repoagent.cli.ui.output_style import plural
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.memory.editing import Part
    from repoagent.memory.identity.record import Memory
    from repoagent.memory.lookup import MemoryTarget

COMMANDS = {
    "list": ("memory_list:list_command", "List what is remembered, file by file."),
    "show": ("memory_list:show_command", "Show what is remembered about a file."),
    "edit": ("memory:edit_command", "Change the notes or the conversation in an editor."),
    "note": ("memory:note_command", "Add a note about a file."),
    "clear": ("memory:clear_command", "Clear what is remembered about files, or restore it."),
    "compact": ("memory_archive:compact_command", "Archive old exchanges, and note a line for each."),
    "relink": ("memory:relink_command", "Attach a memory to another file, or undo that."),
    "export": ("memory_archive:export_command", "Export memories to an archive."),
    "import": ("memory_archive:import_command", "Import memories from an archive."),
    "gc": ("memory_archive:gc_command", "Archive memories whose files are gone."),
}

EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory show src/app.py
  repoagent memory note src/app.py "the order of the results is relied on"

FILE is a path, even of a deleted file, or the name or id of a memory as
`memory list --json` and `memory show` print it."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show, correct and clear what is remembered about files: notes, conversations and edits."""


def find(repo: Repository, name: str, *, rekey: bool = False) -> MemoryTarget:
    """The file or memory with this name; see `find_target`."""
    from repoagent.memory.lookup import find_target

    return find_target(repo.layout, repo.worktree, name, repo.cwd, warn=repo.terminal.warn, rekey=rekey)


def find_memory(repo: Repository, target: str | MemoryTarget, *, rekey: bool = False) -> Memory:
    """The memory of a file. Raises NothingDone if it has none."""
    from repoagent.memory.lookup import require_memory

    target = find(repo, target, rekey=rekey) if isinstance(target, str) else target
    return require_memory(repo.layout, repo.worktree, target, warn=repo.terminal.warn)


def find_memories(repo: Repository, files: tuple[str, ...], *, rekey: bool) -> list[Memory]:
    """The memories of several files, without duplicates."""
    return list(
        {
            memory.folder: memory for memory in (find_memory(repo, file, rekey=rekey) for file in files)
        }.values()
    )


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Remembered paths with this prefix, relative to the current folder; any file if there are none or on an error."""
    from click.shell_completion import CompletionItem

    try:
        paths = _remembered(incomplete)
    except (RepoagentError, OSError):
        paths = []  # no repository; a shell would print an error into the command line
    chosen = ctx.params.get(param.name or "") or ()
    items = [CompletionItem(path) for path in paths if path not in chosen and path.isprintable()]
    return items or [CompletionItem(incomplete, type="file")]


def _remembered(incomplete: str) -> list[str]:
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.memory.lookup import by_prefix

    cwd = Path(os.path.realpath(Path.cwd()))
    worktree = open_worktree(cwd)
    beginning = os.path.relpath(os.path.normpath(cwd / incomplete), worktree.top)
    if not incomplete or incomplete.endswith("/"):
        beginning = "" if beginning == "." else f"{beginning}/"
    if beginning.startswith("../"):
        return []
    paths = by_prefix(layout(worktree), worktree, beginning, 500)  # more than a shell shows
    begun = incomplete[: incomplete.rfind("/") + 1]  # the shell compares with the typed text
    return [begun + os.path.relpath(worktree.top / path, cwd / begun) for path in paths]


file_argument = click.argument("file", metavar="FILE", shell_complete=complete)


def amount(size: float) -> str:
    """A readable size in bytes: 812 B, 12.4 kB, 3.1 MB."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" or size >= 100 else f"{size:.1f} {units[0]}"


def quoted_name(memory: Memory, path: str) -> str:
    """The name of a memory on a command line: its path or, if that is unprintable, its folder."""
    return shlex.quote(path) if path.isprintable() else memory.folder.name


NOTE_EXAMPLES = """\b
Examples:
  repoagent memory note src/app.py "the order of the results is relied on"
  repoagent memory note src/app.py - < lessons.md
  repoagent memory note src/copy.py --from src/app.py

From standard input, each bullet and each paragraph becomes a note. Name code
in `backticks`: when it disappears from the file, the note is marked as stale.
--from copies the notes of another file.

The exit code is 1 if all notes exist already."""


@click.command("note", epilog=NOTE_EXAMPLES)
@file_argument
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option(
    "--from", "source", metavar="PATH|ID", shell_complete=complete, help="Copy the notes of another file."
)
@pass_repository
def note_command(
    repo: Repository, /, *, file: str, text: str | None, source: str | None, as_json: bool
) -> int:
    """Add a note about FILE, which every later edit of it gets. `-` reads it from standard input.

    The note is marked as yours, with the date and the version of the file. It is never rewritten or archived. Keys and
    tokens in it are masked.
    """
    from repoagent.memory.notes import add_user_notes, check_notes, copy_notes, parse_notes

    texts: list[str] = []
    if source is not None and text is not None:
        raise UsageError("--from cannot be combined with TEXT")
    if source is None and text is None:
        raise UsageError('no text: use `repoagent memory note FILE "TEXT"`, or --from FILE')
    if text is not None:
        texts = parse_notes(sys.stdin.buffer.read().decode("utf-8", "replace")) if text == "-" else [text]
        check_notes(texts)
    source_memory = None if source is None else find_memory(repo, source)
    target = find(repo, file, rekey=True)
    memory = target.memory
    if source_memory is not None and memory is not None and source_memory.folder == memory.folder:
        raise UsageError(f"{source} and FILE have the same memory; name another file")
    moved = (
        target.data is not None and memory and memory.identity.path_in(str(repo.worktree.top)) != target.path
    )
    if memory is None or moved:
        memory = _remember(repo, target)
    if source_memory is None:
        added = add_user_notes(memory, repo.worktree, texts, target.data)
    else:
        added = copy_notes(memory, source_memory)
    if added.masked:
        repo.terminal.warn("masked what looks like a key or token in the note")
    if as_json:
        write_json(
            repo.terminal, {**select(added, "notes", "new"), "file": memory.notes, "masked": added.masked}
        )
    elif added.new:
        repo.terminal.note(f"{plural(added.new, 'note')} added to {repo.shown(memory.notes)}", "dim")
    else:
        repo.terminal.note(f"already noted: {one_line(added.notes[0].text)}")
    return Exit.DONE if added.new else Exit.NOTHING


def _remember(repo: Repository, target: MemoryTarget) -> Memory:
    """A memory for a file that has none yet, or that was moved."""
    from repoagent.git.worktree import open_at_head
    from repoagent.memory.identity.store import remember

    data, head = target.data or b"", open_at_head(repo.cwd)[1]
    return remember(repo.layout, repo.worktree, target.path, data, commit=head, warn=repo.terminal.warn)


_PROBLEMS = 5  # problems named
_EMPTY = b"# Notes\n\n"
EDIT_EXAMPLES = """\b
Examples:
  repoagent memory edit src/app.py
  repoagent memory edit src/app.py --conversation
  EDITOR="code --wait" repoagent memory edit src/app.py

If a command writes to the file while you edit, both changes are merged; if
they conflict, your text is saved in another file, and its name is printed."""


@click.command("edit", epilog=EDIT_EXAMPLES)
@file_argument
@click.option("--conversation", is_flag=True, help="Edit the conversation instead of the notes.")
@pass_repository
def edit_command(repo: Repository, /, *, file: str, conversation: bool, as_json: bool) -> int:
    """Edit the notes about FILE in your editor: $VISUAL, $EDITOR, or the one that git uses.

    Each bullet and each paragraph is a note. The saved text is checked, with warnings about suspicious lines. An empty
    text changes nothing; to remove everything, use `memory clear`.
    """
    from repoagent.memory.editing import keep_text, save_conversation, save_notes
    from repoagent.storage.atomic import read_regular

    target = find(repo, file, rekey=True)
    memory = target.memory
    path = None if memory is None else memory.conversation if conversation else memory.notes
    before = (read_regular(path) if path is not None else None) or b""
    if conversation and not before:
        raise NothingDone(f"no conversation about {target.path} yet")
    _require_editor(repo, path)
    after, problem = _edited(repo, before or _EMPTY, conversation=conversation)
    if after is None:
        raise NothingDone("the editor failed or saved an empty file; nothing was changed")
    if after == (before or _EMPTY):
        raise NothingDone("nothing was changed")
    try:
        if problem is not None:
            raise problem
        memory = memory or _remember(repo, target)
        merged = (save_conversation if conversation else save_notes)(memory, repo.worktree, before, after)
    except RepoagentError as error:
        copy = keep_text(memory, "conversation.md" if conversation else "notes.md", after)
        kind = Busy if isinstance(error, Busy) else Refused
        raise kind(f"{error}; your text is saved in {repo.shown(copy)}") from error
    path = memory.conversation if conversation else memory.notes
    if as_json:
        write_json(repo.terminal, {"file": path, "bytes": len(after), "merged": merged})
    else:
        more = "; merged with changes made while you edited" if merged else ""
        repo.terminal.note(f"saved {repo.shown(path)}{more}", "dim")
    return Exit.DONE


def _require_editor(repo: Repository, path: Path | None) -> None:
    """Raise UsageError if the editor would need a terminal and there is none."""
    from repoagent.git.process import git_output

    terminal = repo.terminal
    if (
        (terminal.input_tty and (terminal.error_tty or terminal.output_tty))
        or any(os.environ.get(name) for name in ("GIT_EDITOR", "VISUAL", "EDITOR"))
        or git_output(repo.worktree.top, "config", "core.editor", ok=(0, 1)).stdout.strip()
    ):
        return
    instead = f"edit {path}" if path is not None else "use `repoagent memory note`"
    raise UsageError(
        f"no terminal for an editor: set EDITOR to a program that does not need one, or {instead}"
    )


def _edited(repo: Repository, text: bytes, *, conversation: bool) -> tuple[bytes | None, Refused | None]:
    """The edited text (None if the editor failed or saved nothing), and the reason if it is invalid and the user did
    not fix it."""
    from repoagent.memory.editing import check_conversation, check_notes
    from repoagent.storage.secrets import mask

    terminal = repo.terminal
    while True:
        saved = terminal.edit_text(text.decode("utf-8", "surrogateescape"), ".md", cwd=repo.cwd)
        if saved is None:
            return None, None
        masked = mask(saved)
        if masked != saved:
            terminal.warn("masked what looks like a key or token in the text")
        text = masked.encode("utf-8", "surrogateescape")
        try:
            problems = check_conversation(text) if conversation else check_notes(text)
        except Refused as error:
            if not terminal.can_ask:
                return text, error
            terminal.warn(str(error))
            choices = {"e": "edit it again", "k": "save it in another file and change nothing"}
            if terminal.ask("Your text cannot be parsed", choices) == "k":
                return text, error
            continue
        for problem in problems[:_PROBLEMS]:
            terminal.warn(f"line {problem.line}: {problem.says}")
        if len(problems) > _PROBLEMS:
            terminal.warn(f"and {len(problems) - _PROBLEMS} more")
        return text, None


CLEAR_EXAMPLES = """\b
Examples:
  repoagent memory clear src/app.py
  repoagent memory clear src/app.py --conversation --yes
  repoagent memory clear --undo src/app.py

Nothing is deleted: it moves to the archive/ folder of the memory, where
prompts and searches ignore it; --undo restores the last clear. To delete it
for good, delete that folder. The memory stays attached to its file."""


@click.command("clear", epilog=CLEAR_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete)
@click.option("--notes", "parts", flag_value="notes", multiple=True, help="Clear the notes.")
@click.option(
    "--conversation", "parts", flag_value="conversation", multiple=True, help="Clear the conversation."
)
@click.option("--edits", "parts", flag_value="edits", multiple=True, help="Clear the list of edits.")
@click.option("--all", "everything", is_flag=True, help="Clear all of these (the default).")
@click.option("--undo", is_flag=True, help="Undo the last clear.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be cleared; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_repository
def clear_command(repo: Repository, /, *, files: tuple[str, ...], as_json: bool, **values: Any) -> int:
    """Clear what is remembered about FILES: move it to the archive."""
    options = SimpleNamespace(**values)
    if options.undo and (options.parts or options.everything):
        raise UsageError(
            "--undo restores all parts of the last clear; it cannot be combined with other options"
        )
    if as_json and not (options.undo or options.dry_run or options.yes):
        repo = repo._replace(terminal=repo.terminal._replace(input_tty=False))
    memories = find_memories(repo, files, rekey=not options.dry_run)
    moved = (_restore if options.undo else _clear)(repo, memories, options, quiet=as_json)
    if as_json:
        rows = [
            {"path": memory.identity.path, "memory": memory.folder.name, "parts": dict(parts), "archive": at}
            for memory, at, parts in moved
        ]
        action = None if options.dry_run else "undo" if options.undo else "clear"
        write_json(repo.terminal, {"action": action, "files": rows})
    return Exit.DONE if moved else Exit.NOTHING


Cleared = list[
    tuple["Memory", "Path | None", "Mapping[Part, int]"]
]  # each memory with its archive and the parts in it


def _restore(repo: Repository, memories: list[Memory], options: SimpleNamespace, *, quiet: bool) -> Cleared:
    from repoagent.memory.editing import archived_parts, restore

    archives = [(memory, archived[-1]) for memory in memories if (archived := archived_parts(memory))]
    if not archives:
        raise NothingDone("nothing to restore: nothing was cleared")
    for memory, archive in archives:
        if not options.dry_run:
            restore(memory, archive)
        if not quiet:
            verb = "would restore" if options.dry_run else "restored"
            repo.terminal.note(f"{one_line(memory.identity.path)}: {verb} {', '.join(archive.parts)}")
    return [(memory, archive.folder, archive.parts) for memory, archive in archives]


def _clear(repo: Repository, memories: list[Memory], options: SimpleNamespace, *, quiet: bool) -> Cleared:
    from repoagent.memory.editing import PARTS, clear, part_sizes

    def note(text: str, *styles: str) -> None:
        if not quiet:
            repo.terminal.note(text, *styles)

    chosen = [part for part in PARTS if part in options.parts and not options.everything] or list(PARTS)
    full: Cleared = [(memory, None, sizes) for memory in memories if (sizes := part_sizes(memory, chosen))]
    if not full:
        raise NothingDone("nothing to clear")
    for memory, _, parts in full:
        listing = ", ".join(f"{part} ({amount(size)})" for part, size in parts.items())
        note(f"{one_line(memory.identity.path)}: {listing}")
    if options.dry_run:
        return full
    if not options.yes:
        repo.confirm(
            f"Clear this for {plural(len(full), 'file')}",
            ("move it to the archive", "change nothing"),
            refusal="cannot ask for confirmation without a terminal; use --yes, or --dry-run to preview",
            declined="nothing was cleared",
        )
    moved: Cleared = []
    for memory, _, _ in full:
        if (archive := clear(memory, chosen)) is not None:
            moved.append((memory, archive.folder, archive.parts))
            note(f"moved to {repo.shown(archive.folder)}", "dim")
    if moved:
        names = " ".join(quoted_name(memory, memory.identity.path) for memory, _, _ in full)
        note(f"restore it with: repoagent memory clear --undo {names}", "dim")
    return moved


RELINK_EXAMPLES = """\b
Examples:
  repoagent memory relink src/new.py --from src/old.py
  repoagent memory relink src/new.py --undo             undo the last relink

The memory named by --from is attached to FILE and detached from its previous
file. The relink is recorded with its reason and can be undone. If the text of
FILE differs, older notes are marked as being about an older text."""


@click.command("relink", epilog=RELINK_EXAMPLES)
@file_argument
@click.option(
    "--from", "source", metavar="PATH|ID", shell_complete=complete,
    help="The memory to attach: the path of its file, or its name or id.",
)  # fmt: skip
@click.option("--undo", is_flag=True, help="Undo the last relink of FILE.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; do nothing.")
@pass_repository
def relink_command(repo: Repository, /, *, file: str, as_json: bool, **values: Any) -> int:
    """Attach a memory to FILE, or undo that. `memory show` lists the relinks of FILE."""
    from repoagent.memory.identity.store import last_step, relink

    options = SimpleNamespace(**values)
    source, undo, dry_run = options.source, options.undo, options.dry_run
    if undo and source:
        raise UsageError("--undo cannot be combined with --from")
    if not (source or undo):
        raise UsageError("nothing to attach: use --from PATH, or --undo")
    terminal, top = repo.terminal, str(repo.worktree.top)
    if source:
        memory, path = find_memory(repo, source), repo.relative(file)
        if memory.identity.path_in(top) == path and find(repo, file).memory is not None:
            raise NothingDone(f"{path} already has that memory")
    else:
        target = find(repo, file)
        memory = find_memory(repo, target)
        step = last_step(memory.identity, repo.worktree)
        if step is None:
            raise NothingDone(f"nothing to undo: the memory of {target.path} was never relinked")
        path = step.before
    before = memory.identity.path_in(top)
    reason = relink(repo.layout, repo.worktree, memory, path, dry_run=dry_run, warn=terminal.warn).reason
    if as_json:
        content = {"memory": memory.folder.name, "before": before, "path": path, "reason": reason}
        write_json(terminal, {**content, "done": not dry_run})
        return Exit.DONE
    verb = "would attach" if dry_run else "attached"
    terminal.result(f"{verb} the memory of {one_line(before)} to {one_line(path)}\n")
    if reason.startswith("linked by hand to another text"):
        terminal.note("the text of this file differs, so older notes are marked", "dim")
    if not dry_run:
        terminal.note(f"undo it with: repoagent memory relink --undo {quoted_name(memory, path)}", "dim")
    return Exit.DONE
