"""`repoagent memory`: the group, what its commands share, and `note`, `relink` and `status`.

The other commands are in memory_show (list, show), memory_edit (edit, clear) and memory_archive.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line, paint
from repoagent.errors import Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.identity.record import Memory
    from repoagent.memory.lookup import MemoryTarget, Totals
    from repoagent.storage.layout import Layout

__all__ = ["command"]

# name: (its click command, its short help)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.commands.memory_show:list_command", "List what is remembered, file by file."),
    "show": ("repoagent.cli.commands.memory_show:show_command", "Show what is remembered about a file."),
    "edit": (
        "repoagent.cli.commands.memory_edit:edit_command",
        "Change the notes or the conversation in an editor.",
    ),
    "note": ("repoagent.cli.commands.memory:note_command", "Add a note about a file."),
    "clear": (
        "repoagent.cli.commands.memory_edit:clear_command",
        "Clear what is remembered about files, or restore it.",
    ),
    "compact": (
        "repoagent.cli.commands.memory_archive:compact_command",
        "Archive old exchanges and keep a line of each.",
    ),
    "relink": (
        "repoagent.cli.commands.memory:relink_command",
        "Attach a memory to another file, or undo that.",
    ),
    "export": (
        "repoagent.cli.commands.memory_archive:export_command",
        "Export memories to an archive.",
    ),
    "import": ("repoagent.cli.commands.memory_archive:import_command", "Import memories from an archive."),
    "gc": ("repoagent.cli.commands.memory_archive:gc_command", "Archive memories whose files are gone."),
    "status": (
        "repoagent.cli.commands.memory:status_command",
        "Show how much is remembered, and any problems.",
    ),
}

EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory show src/app.py
  repoagent memory note src/app.py "the order of the results is relied on"

FILE is a path, even of a file that is gone, or the name or id of a memory as
`memory list --json` and `memory show` print it."""


class MemoryGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(cls=MemoryGroup, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show, correct and clear what is remembered about files: notes, conversations, edits."""


VERSION = 1
_OFFERED = 500  # paths; a shell shows no more
_UNITS = ("B", "kB", "MB", "GB", "TB")


class MemoryCommand(NamedTuple):
    """The repository, settings and terminal of a command."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    cwd: Path

    def named(self, name: str, *, rekey: bool = False) -> MemoryTarget:
        """The memory that `name` names; see `find_target`."""
        from repoagent.memory.lookup import find_target

        return find_target(self.layout, self.worktree, name, self.cwd, warn=self.terminal.warn, rekey=rekey)

    def shown(self, path: Path) -> str:
        """The path of one of our files: relative to the current folder or, if shorter, absolute."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)


def opened(session: Session, flags: Mapping[str, object] | None = None) -> MemoryCommand:
    """Open the current repository. Raises UsageError outside one."""
    from repoagent.git.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    return MemoryCommand(worktree, place, *session.open(place, flags), cwd)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Remembered paths with this prefix, relative to the current folder; any file if there are none.

    Errors are silent: a shell would print them into the command line.
    """
    from click.shell_completion import CompletionItem

    found: list[str] = []
    try:
        found = _remembered(incomplete)
    except (RepoagentError, OSError):
        pass  # no repository here, say
    taken = set(ctx.params.get(param.name or "") or ())
    items = [CompletionItem(path) for path in found if path not in taken and path.isprintable()]
    return items or [CompletionItem(incomplete, type="file")]


def _remembered(incomplete: str) -> list[str]:
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.memory.lookup import by_prefix

    cwd = Path(os.path.realpath(Path.cwd()))
    worktree = open_worktree(cwd)
    typed = Path(os.path.normpath(cwd / incomplete))
    beginning = os.path.relpath(typed, worktree.top) if incomplete else os.path.relpath(cwd, worktree.top)
    if not incomplete or incomplete.endswith("/"):
        beginning = "" if beginning == "." else f"{beginning}/"
    if beginning.startswith("../"):
        return []
    paths = by_prefix(layout(worktree), worktree, beginning, _OFFERED)
    begun = incomplete[: incomplete.rfind("/") + 1]  # what the shell compares with is what was typed
    return [begun + os.path.relpath(worktree.top / path, cwd / begun) for path in paths]


def amount(size: float) -> str:
    """A size in bytes as people read it: 812 B, 12.4 kB, 3.1 MB."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return ""


def count(number: int, thing: str) -> str:
    """How many of a thing: 1 note, 2,000 notes, 3 memories."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing[:-1]}ies" if thing.endswith("y") else f"{number:,} {thing}s"


def name(path: str) -> str:
    """A path on one line of output."""
    return one_line(path)


NOTE_EXAMPLES = """\b
Examples:
  repoagent memory note src/app.py "the order of the results is relied on"
  repoagent memory note src/app.py - < lessons.md
  repoagent memory note src/copy.py --from src/app.py

From standard input, each bullet and each paragraph becomes a note. Name code
in `backticks`: when it disappears from the file, the note is marked as stale.
--from copies the notes of another file.

The exit code is 1 if all of the notes exist already."""


@click.command("note", epilog=NOTE_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option(
    "--from",
    "source",
    metavar="PATH|ID",
    shell_complete=complete,
    help="Copy the notes of another file.",
)
@json_option
@pass_session
def note_command(session: Session, /, file: str, text: str | None, source: str | None, as_json: bool) -> int:
    """Add a note about FILE, which every later edit of it sees. `-` reads it from standard input.

    The note is marked as yours, with the date and the version of the file. It is never rewritten or archived. Keys and
    tokens in it are masked.
    """
    from repoagent.git.worktree import open_at_head
    from repoagent.memory.identity.store import remember
    from repoagent.memory.lookup import require_memory
    from repoagent.memory.notes import add_user_notes, copy_notes

    texts = _texts(text, source)
    here = opened(session)
    other = None
    if source is not None:
        other = require_memory(here.layout, here.worktree, here.named(source), warn=here.terminal.warn)
    found = here.named(file, rekey=True)
    if other is not None and found.memory is not None and other.folder == found.memory.folder:
        raise UsageError(f"{source} and FILE have the same memory; name another file")
    memory = found.memory
    if memory is None or (
        found.data is not None and memory.identity.path_in(str(here.worktree.top)) != found.path
    ):
        head = open_at_head(here.cwd)[1]
        memory = remember(
            here.layout, here.worktree, found.path, found.data or b"", commit=head, warn=here.terminal.warn
        )
    noted = (
        add_user_notes(memory, here.worktree, texts, found.data)
        if other is None
        else copy_notes(memory, other)
    )
    if noted.masked:
        here.terminal.warn("masked what looks like a key or token in the note")
    if as_json:
        notes = [vars(note) for note in noted.notes]
        content = {"version": VERSION, "notes": notes, "new": noted.new, "file": str(memory.notes)}
        here.terminal.result(json.dumps({**content, "masked": noted.masked}, indent=2) + "\n")
    elif noted.new:
        where = here.shown(memory.notes)
        here.terminal.note(f"{count(noted.new, 'note')} added to {where}", "dim")
    if noted.new:
        return Exit.DONE
    if not as_json:
        here.terminal.note(f"already noted: {one_line(noted.notes[0].text)}")
    return Exit.NOTHING


def _texts(text: str | None, source: str | None) -> list[str]:
    """The words of the notes, none where they are to be copied. Raises UsageError."""
    from repoagent.memory.notes import check_notes, parse_notes

    if source is not None:
        if text is not None:
            raise UsageError("--from cannot be combined with TEXT")
        return []
    if text is None:
        raise UsageError('no text: use `repoagent memory note FILE "TEXT"`, or --from FILE')
    piped = text == "-"
    given = sys.stdin.buffer.read().decode("utf-8", "replace") if piped else text
    texts = parse_notes(given) if piped else [given]
    check_notes(texts)
    return texts


RELINK_EXAMPLES = """\b
Examples:
  repoagent memory relink src/new.py                    list earlier relinks
  repoagent memory relink src/new.py --from src/old.py
  repoagent memory relink a.py --from b.py --swap       exchange two memories
  repoagent memory relink src/new.py --undo             undo the last relink

The memory that --from names is attached to FILE and detached from its former
file. The relink is recorded with its reason and can be undone. If FILE has
another text, older notes are marked as being about an older text."""


@click.command("relink", epilog=RELINK_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option(
    "--from", "source", metavar="PATH|ID", shell_complete=complete,
    help="The memory to attach: the path of its file, or its name or id.",
)  # fmt: skip
@click.option("--swap", is_flag=True, help="Give the memory of FILE, if any, to the other file.")
@click.option("--undo", is_flag=True, help="Undo the last relink of FILE.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; do nothing.")
@json_option
@pass_session
def relink_command(session: Session, /, file: str, **options: Any) -> int:
    """Attach a memory to FILE, or undo that. Without options, list the relinks of FILE."""
    if options["undo"] and (options["source"] or options["swap"]):
        raise UsageError("--undo cannot be combined with --from or --swap")
    if options["swap"] and not options["source"]:
        raise UsageError("--swap needs --from")
    here = opened(session)
    if options["source"]:
        return _link(here, file, options)
    found = here.named(file)
    return _take_back(here, found, options) if options["undo"] else _show(here, found, options)


def _link(here: MemoryCommand, file: str, options: dict[str, Any]) -> int:
    from repoagent.git.worktree import relative
    from repoagent.memory.lookup import require_memory

    memory = require_memory(
        here.layout, here.worktree, here.named(options["source"]), warn=here.terminal.warn
    )
    path = relative(here.worktree, file, here.cwd)
    if memory.identity.path_in(str(here.worktree.top)) == path and here.named(file).memory is not None:
        raise NothingDone(f"{path} already has that memory")
    return _relink(here, memory, path, options, swap=options["swap"])


def _take_back(here: MemoryCommand, found: MemoryTarget, options: dict[str, Any]) -> int:
    from repoagent.memory.identity.relink import is_swapped, last_step
    from repoagent.memory.lookup import require_memory

    memory = require_memory(here.layout, here.worktree, found, warn=here.terminal.warn)
    step = last_step(memory.identity, here.worktree)
    if step is None:
        raise NothingDone(f"nothing to undo: the memory of {found.path} was never relinked")
    swap = is_swapped(here.layout, here.worktree, step, warn=here.terminal.warn)
    return _relink(here, memory, step.before, options, swap=swap)


def _relink(here: MemoryCommand, memory: Memory, path: str, options: dict[str, Any], *, swap: bool) -> int:
    from repoagent.memory.identity.relink import relink

    before = memory.identity.path_in(str(here.worktree.top))
    linked = relink(
        here.layout, here.worktree, memory, path,
        swap=swap, dry_run=options["dry_run"], warn=here.terminal.warn,
    )  # fmt: skip
    reason = linked.reason
    content = {
        "version": VERSION,
        "memory": memory.folder.name,
        "before": before,
        "path": path,
        "reason": reason,
        "swapped": swap,
        "done": not options["dry_run"],
    }
    if options["as_json"]:
        here.terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE
    verb = "would attach" if options["dry_run"] else "attached"
    here.terminal.result(f"{verb} the memory of {name(before)} to {name(path)}\n")
    if swap:
        here.terminal.result(f"{verb} the memory of {name(path)} to {name(before)}\n")
    if reason.startswith("linked by hand to another text"):
        here.terminal.note("the file has another text, so older notes are marked", "dim")
    if not options["dry_run"]:
        word = shlex.quote(path) if path.isprintable() else memory.folder.name
        here.terminal.note(f"undo it with: repoagent memory relink --undo {word}", "dim")
    return Exit.DONE


def _show(here: MemoryCommand, found: MemoryTarget, options: dict[str, Any]) -> int:
    """List the relinks of the memory, and mark the one that --undo would undo."""
    from repoagent.memory.identity.relink import last_step, steps
    from repoagent.memory.lookup import require_memory

    memory = require_memory(here.layout, here.worktree, found, warn=here.terminal.warn)
    known, last = steps(memory.identity), last_step(memory.identity, here.worktree)
    if options["as_json"]:
        content = {
            "version": VERSION,
            "memory": memory.folder.name,
            "path": memory.identity.path_in(str(here.worktree.top)),
            "rekeyings": [vars(one) for one in memory.identity.rekeyings],
            "can_be_taken_back": None if last is None else {"before": last.before, **vars(last.rekeying)},
        }
        here.terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE
    if not known:
        here.terminal.note(f"the memory of {name(found.path)} was never relinked")
        return Exit.NOTHING
    for step in known:
        mark = "*" if step == last else " "
        one = step.rekeying
        here.terminal.result(
            f"{mark} {one.time[:16]}  {name(step.before)} to {name(step.after)}: {name(one.reason)}\n"
        )
    if last is not None:
        here.terminal.note(
            f"--undo undoes the marked one, back to {name(last.before)}; preview it with --dry-run",
            "dim",
        )
    return Exit.DONE


_ASIDE = 10  # files that are named
_OPTIONS = ("memory.", "sent.")
STATUS_EXAMPLES = """\b
Examples:
  repoagent memory status
  repoagent memory status --json | jq .states

Files that could not be read are set aside as NAME.broken-N and never deleted:
repair and rename them, or remove them."""


@click.command("status", epilog=STATUS_EXAMPLES)
@json_option
@pass_session
def status_command(session: Session, /, as_json: bool) -> None:
    """Show the number, states and size of memories, the files that are set aside, and whether locks work."""
    from repoagent.memory.lookup import totals

    here = opened(session)
    with here.terminal.working("reading all memories") as working:
        found = totals(here.layout, here.worktree, here.terminal.warn)
        working.quiet()
    if as_json:
        here.terminal.result(json.dumps(_as_object(found, here), indent=2) + "\n")
        return
    bold = ("bold",) if here.terminal.color else ()
    for title, lines in _parts(found, here):
        first, *rest = lines or ["none"]
        here.terminal.styled(f"{paint(f'{title:<11}', *bold)}{first}\n")
        here.terminal.styled("".join(f"{'':11}{line}\n" for line in rest))
    if found.locks:
        here.terminal.warn(found.locks)


def _parts(found: Totals, here: MemoryCommand) -> list[tuple[str, list[str]]]:
    """(title, its lines), clean."""
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(found.states.items()))
    held = [f"{name(here.shown(lock))}: {name(who)}" for lock, who in found.held]
    parts = [
        ("memories", [f"{found.count:,}" + (f": {states}" if states else "")]),
        ("hold", [f"{count(found.notes, 'note')}, {count(found.edits, 'edit')}"]),
        ("size", [f"{amount(found.size)}, and {amount(found.sent)} of sent requests"]),
        ("where", [name(here.shown(here.layout.memory))]),
        ("index", [found.index]),
        ("kept", [f"{key} = {value}" for key, value in _options(here)]),
        ("set aside", _few([name(here.shown(path)) for path in found.set_aside])),
        ("locks", held or ["none held" + ("" if found.locks else "; locking works here")]),
    ]
    if found.lacking:
        parts.insert(
            1,
            (
                "unusable",
                _few([f"{name(one)} has no readable identity.json" for one in found.lacking]),
            ),
        )
    return parts


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _ASIDE else [*lines[:_ASIDE], f"and {len(lines) - _ASIDE:,} more"]


def _options(here: MemoryCommand) -> list[tuple[str, object]]:
    return [(one.key, one.shown) for one in here.settings if one.key.startswith(_OPTIONS)]


def _as_object(found: Totals, here: MemoryCommand) -> dict[str, object]:
    return {
        "version": VERSION,
        "folder": str(here.layout.memory),
        "memories": found.count,
        "states": {state: found.states[state] for state in ("live", "moved", "orphaned")},
        "unusable": list(found.lacking),
        "notes": found.notes,
        "edits": found.edits,
        "size": found.size,
        "sent_size": found.sent,
        "index": found.index,
        "options": dict(_options(here)),
        "set_aside": [str(path) for path in found.set_aside],
        "held": [{"lock": str(lock), "by": who} for lock, who in found.held],
        "locks": found.locks or None,
    }
