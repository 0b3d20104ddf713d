"""`repoagent memory export`, `import` and `gc`: write memories to an archive, import them, and archive those without a
file."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.commands.memory import find_target_named, size_text
from repoagent.cli.options import number_option
from repoagent.cli.session import Repository, pass_repository, select_fields
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural
from repoagent.errors import Exit, NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.memory.identity.record import Memory

EXPORT_EXAMPLES = """\b
Examples:
  repoagent memory export -o team.tar.gz
  repoagent memory export src docs/guide.md -o team.tar.gz
  repoagent memory export --no-conversations | ssh host 'cat > notes.tar.gz'

The archive is a tar of plain files and a manifest.json. The same memories
always produce the same bytes, so you can commit the archive. It contains
nothing about this machine and no file contents; keys and tokens are masked.
Import it with `repoagent memory import`."""


def _count(**numbers: int) -> str:
    """Numbers with their nouns, zeros left out."""
    return ", ".join(plural(number, noun.replace("_", " ")) for noun, number in numbers.items() if number)


@click.command("export", epilog=EXPORT_EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("-o", "--output", metavar="FILE|-", help="Write the archive to FILE; `-` is standard output.")
@click.option("--no-conversations", is_flag=True, help="Export notes and edits only.")
@pass_repository
def export_command(
    repo: Repository, /, *, paths: tuple[str, ...], output: str | None, no_conversations: bool
) -> None:
    """Export the memories of each PATH (a file or folder), or all memories, to one archive."""
    from repoagent.memory.archive import dumps, pack_memory
    from repoagent.memory.identity.store import read_memories
    from repoagent.storage.atomic import write_whole

    terminal, piped = repo.terminal, output in (None, "-")
    if piped and (repo.as_json or (terminal.output_tty and output is None)):
        raise UsageError("no file for the archive: use -o FILE")
    target = repo.cwd / (output or "-")
    if not piped and not target.parent.is_dir():
        raise UsageError(f"no such folder: {target.parent}; create it first")
    if not piped and os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
        raise Refused(f"{target} is not a regular file; use another file, or - for standard output")

    known = read_memories(repo.layout, warn=terminal.warn)
    if not known:
        raise NothingDone("this repository has no memories yet; the first edit creates one")
    chosen: dict[str, Memory] = {}
    for path in paths or [str(repo.worktree.top)]:
        below = repo.relative(path)
        found = [each for each in known if below == "." or each.identity.path.startswith(f"{below}/")]
        if not found and (memory := find_target_named(repo, path).memory):
            found = [memory]
        if not found:
            raise UsageError(f"{path} has no memory; `repoagent memory list` lists all memories")
        chosen |= {memory.folder.name: memory for memory in found}
    parcels = [
        pack_memory(chosen[name], terminal.warn, conversations=not no_conversations)
        for name in sorted(chosen)
    ]
    data = dumps(parcels)
    if piped:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_whole(target, data)
    rows = [{**select_fields(parcel, "name", "masked"), "path": parcel.identity.path} for parcel in parcels]
    where = "" if piped else f"{one_line(repo.shown(target))}: "
    notes = [f"{where}{plural(len(parcels), 'memory')}, {size_text(len(data))}"]
    if masked := sum(parcel.masked for parcel in parcels):
        notes.append(f"masked {plural(masked, 'key')} or token{'s' * (masked > 1)}")
    repo.emit({"archive": target, "bytes": len(data), "memories": rows}, notes=notes)


IMPORT_EXAMPLES = """\b
Examples:
  repoagent memory import team.tar.gz --dry-run
  repoagent memory import team.tar.gz
  ssh host cat notes.tar.gz | repoagent memory import -

A memory is attached to the file at its path if the file's content or git's
history shows that it is the same file. Otherwise the memory is imported without
a file; attach it with `repoagent memory relink`. Missing notes are added to an
existing memory. Imported notes are marked; keys and tokens in them are masked.

The exit code is 1 if there is nothing new to import."""
_OUTCOMES: dict[str, Cell] = {
    "new": ("new", "green"),
    "orphaned": ("no file", "yellow"),
    "merged": ("merged", "green"),
    "same": ("known",),
}
_IMPORT_COLUMNS = (
    Column("path", cut="middle", least=16),
    Column("outcome"),
    Column("remarks", cut="end", least=16),
)


@click.command("import", epilog=IMPORT_EXAMPLES)
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Show what would be imported; import nothing.")
@pass_repository
def import_command(repo: Repository, /, *, file: str, dry_run: bool) -> int:
    """Import memories from an archive, and attach each to its file."""
    from repoagent.memory import archive

    terminal, path = repo.terminal, repo.cwd / file
    if path.is_dir() and os.path.realpath(path.parent) == os.path.realpath(repo.layout.archived_memory):
        if dry_run:
            raise UsageError("--dry-run works only with archives from `repoagent memory export`")
        memory = archive.restore_memory(repo.layout, path)
        where = memory.identity.path_in(str(repo.worktree.top))
        at = where if os.path.lexists(repo.worktree.top / where) else None
        arrivals = [archive.ImportResult(where, at, memory.folder.name, "new" if at else "orphaned")]
    else:
        if file == "-":
            if terminal.input_tty:
                raise UsageError("no archive on standard input; pipe one in, or name a file")
            parcels = archive.read_archive(sys.stdin.buffer, "standard input")
        elif not path.is_file():
            raise UsageError(f"no such file: {file}")
        else:
            with path.open("rb") as stream:
                parcels = archive.read_archive(stream, file)
        source = archive.source_of("" if file == "-" else path.name)
        arrivals = archive.import_memories(
            repo.layout, repo.worktree, parcels, source, dry_run=dry_run, warn=terminal.warn
        )
    memories, rows = [], []
    for each in arrivals:
        numbers = select_fields(each, "notes", "edits", "exchanges")
        row = select_fields(each, "path", "outcome", memory="folder", current_path="at", reason="why")
        memories.append({**row, **numbers})
        new = _count(note=each.notes, edit=each.edits, exchange=each.exchanges)
        moved = each.why or (f"from {each.path}" if each.at and each.at != each.path else "")
        name = f"as {each.folder}" if each.outcome == "orphaned" else ""
        remarks = one_line("; ".join(filter(None, [new, moved, name])))
        rows.append((one_line(each.at or each.path), _OUTCOMES[each.outcome], remarks))
    outcomes = Counter[str](memory.outcome for memory in arrivals)
    totals = ", ".join(f"{outcomes[key]} {cell[0]}" for key, cell in _OUTCOMES.items() if outcomes[key])
    total = f"{'would import ' if dry_run else ''}{plural(len(arrivals), 'memory')}: {totals}"
    notes = [total if arrivals else "the archive is empty"]
    if outcomes["orphaned"] and not dry_run:
        notes.append("to attach a memory that has no file: repoagent memory relink FILE --from NAME")
    table = Page.of(terminal).table(_IMPORT_COLUMNS, rows) if rows else ()
    repo.emit({"dry_run": dry_run, "memories": memories}, table, notes=notes)
    return Exit.DONE if any(each.outcome != "same" for each in arrivals) else Exit.NOTHING


GC_EXAMPLES = """\b
Examples:
  repoagent memory gc
  repoagent memory gc --apply
  repoagent memory gc --older-than 0 --apply
  repoagent memory import .repoagent/archive/NAME    restore one

A memory is kept as long as its path, or a version of its file, is in any work
tree or at the tip of any branch. gc does not delete memories: it moves them to
.repoagent/archive/.

If conversations.keep_days is set, gc also deletes older exchanges for good, and
adds a line for each to the notes."""
_GC_COLUMNS = (
    Column("path", cut="middle", least=14),
    Column("size", right=True),
    Column("changed", dropped=1),
    Column("verdict", cut="end", least=8),
)


@click.command("gc", epilog=GC_EXAMPLES)
@number_option(
    "--older-than", metavar="DAYS", type=click.IntRange(min=0), default=14, show_default=True,
    help="Archive only memories unchanged for this many days.",
)  # fmt: skip
@click.option("--apply", "-y", "--yes", "apply", is_flag=True, help="Archive the listed memories.")
@pass_repository
def gc_command(repo: Repository, /, *, older_than: int, apply: bool) -> int:
    """Archive memories whose file no longer exists anywhere. Without --apply, only list them."""
    from repoagent.memory.gc import ForgottenCounts, collect_garbage, forget_conversations

    terminal = repo.terminal
    if apply:
        repo.settle()
    judged, total = collect_garbage(
        repo.layout, repo.worktree, days=older_than, apply=apply, warn=terminal.warn
    )
    forgotten, days = ForgottenCounts(), repo.settings.whole_or_none("conversations.keep_days")
    if days is not None:
        forgotten = forget_conversations(repo.layout, days, apply=apply, warn=terminal.warn)
    orphans = [each for each in judged if each.verdict != "kept"]
    memories, rows = [], []
    for each in judged:
        path, changed = each.memory.identity.path, datetime.fromtimestamp(each.used).astimezone()
        memories.append(
            {
                "path": path,
                "memory": each.memory.folder.name,
                "changed": changed.isoformat(timespec="seconds"),
                **select_fields(each, "verdict", "archive", bytes="size", reason="why"),
            }
        )
        verdict = "orphan" if each.archive is None else f"archived: {repo.shown(each.archive)}"
        cell: Cell = (
            (one_line(f"kept: {each.why}"),) if each.verdict == "kept" else (one_line(verdict), "yellow")
        )
        rows.append((one_line(path), size_text(each.size), f"{changed:%Y-%m-%d}" if each.used else "", cell))
    size = f"{plural(len(orphans), 'memory')} ({size_text(sum(each.size for each in orphans))})"
    if orphans and apply:
        notes = [f"archived {size} in .repoagent/archive/"]
    elif orphans:
        notes = [f"would archive {size}; do it with `repoagent memory gc --apply`"]
    else:
        notes = [f"nothing to archive in {plural(total, 'memory')}"]
    if forgotten:
        counts = _count(
            exchange=forgotten.exchanges,
            unfinished_conversation=forgotten.unfinished,
            earlier_copy=forgotten.copies,
            past_run=forgotten.runs,
        )
        verb = "deleted" if apply else "would delete"
        notes.append(f"{verb} entries older than {days} days: {counts}, {size_text(forgotten.bytes)}")
    table = Page.of(terminal).table(_GC_COLUMNS, rows) if rows else ()
    repo.emit({"applied": apply, "memories": memories, "conversations": forgotten}, table, notes=notes)
    return Exit.DONE if forgotten or orphans else Exit.NOTHING
