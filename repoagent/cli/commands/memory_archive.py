"""`repoagent memory export`, `import`, `gc` and `compact`: archive memories and old exchanges, and import them."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.memory import amount, complete, find_memories
from repoagent.cli.options import max_cost_option, model_option, record_option
from repoagent.cli.repository import Repository, open_repository, pass_repository
from repoagent.cli.session import Session, json_option, pass_session, select, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Column
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.memory.archive.format import ArchivedMemory
    from repoagent.memory.archive.import_archive import Arrival
    from repoagent.memory.compaction import CompactionResult
    from repoagent.memory.identity.record import Memory

EXPORT_EXAMPLES = """\b
Examples:
  repoagent memory export -o team.tar.gz
  repoagent memory export src docs/guide.md -o team.tar.gz
  repoagent memory export --no-conversations | ssh host 'cat > notes.tar.gz'

The archive is a tar of plain files and a manifest.json. The same memories give
the same bytes, so you can commit it. It contains nothing about this machine
and no file contents; keys and tokens are masked. Import it with `repoagent
memory import`."""


def _count(**numbers: int) -> str:
    """Numbers with their nouns, zeros left out."""
    return ", ".join(plural(number, noun.replace("_", " ")) for noun, number in numbers.items() if number)


@click.command("export", epilog=EXPORT_EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete)
@click.option("-o", "--output", metavar="FILE|-", help="Write the archive to FILE; `-` is standard output.")
@click.option("--no-conversations", is_flag=True, help="Export notes and edits only.")
@pass_repository
def export_command(
    repo: Repository, /, *, paths: tuple[str, ...], output: str | None, no_conversations: bool, as_json: bool
) -> int:
    """Export the memories of the files and folders PATH, or all of them, to one archive."""
    from repoagent.memory.archive.format import CONVERSATION, NAME, dumps, pack, records_of, select_memories
    from repoagent.memory.notes import entries
    from repoagent.storage.atomic import write_whole

    terminal, piped = repo.terminal, output in (None, "-")
    if piped and (as_json or (terminal.output_tty and output is None)):
        raise UsageError("no file for the archive: use -o FILE")
    target = repo.cwd / (output or "-")
    if not piped:
        if not target.parent.is_dir():
            raise UsageError(f"no such directory: {target.parent}; create it first")
        if os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
            raise Refused(f"{target} is not a regular file; use another one, or - for standard output")

    def is_memory(name: str) -> bool:
        exists = NAME.fullmatch(name) and (repo.layout.memory / name).is_dir()
        return bool(exists) and not (repo.cwd / name).exists()

    names = [path if is_memory(path) else repo.relative(path) for path in paths]
    memories = select_memories(repo.layout, repo.worktree, names, warn=terminal.warn)
    parcels = [pack(memory, terminal.warn, conversations=not no_conversations) for memory in memories]
    data = dumps(parcels, repo.worktree.object_format)
    if piped:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_whole(target, data)
    if as_json:
        rows = [{**select(parcel, "name", "masked"), "path": parcel.identity.path} for parcel in parcels]
        write_json(terminal, {"archive": target, "bytes": len(data), "memories": rows})
        return Exit.DONE
    files = [parcel.files for parcel in parcels]
    contents = [
        plural(sum(len(entries(each.get("notes.md", b""))) for each in files), "note"),
        plural(sum(len(records_of(each.get("edits.jsonl", b""))) for each in files), "edit"),
        plural(sum(CONVERSATION in each for each in files), "conversation"),
    ]
    where = "" if piped else f"{one_line(repo.shown(target))}: "
    terminal.note(f"{where}{plural(len(files), 'memory')} ({', '.join(contents)}), {amount(len(data))}")
    if masked := sum(parcel.masked for parcel in parcels):
        terminal.note(f"masked {masked} of what looks like a key or token")
    return Exit.DONE


IMPORT_EXAMPLES = """\b
Examples:
  repoagent memory import team.tar.gz --dry-run
  repoagent memory import team.tar.gz
  ssh host cat notes.tar.gz | repoagent memory import -

A memory is attached to the file at its path, if the memory or git knows that
file. Otherwise it is imported without a file; attach it with `repoagent memory
relink`. Missing notes are added to an existing memory. Imported entries are
marked; keys and tokens in them are masked.

The exit code is 1 if there is nothing new to import."""

_OUTCOMES = {
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
@click.option("--dry-run", is_flag=True, help="Show what would be imported; do nothing.")
@pass_repository
def import_command(repo: Repository, /, *, file: str, dry_run: bool, as_json: bool) -> int:
    """Import the memories of an archive, each for its file."""
    from repoagent.memory.archive.import_archive import import_memories, source_of

    terminal = repo.terminal
    parcels, own = _read(repo, file)
    source = "" if own else source_of("" if file == "-" else Path(file).name)
    arrivals = import_memories(
        repo.layout, repo.worktree, parcels, source, dry_run=dry_run, warn=terminal.warn
    )
    if as_json:
        memories = [
            {
                "memory": each.folder,
                **select(each, "path", "outcome", current_path="at", reason="why"),
                **select(each.counts, "notes", "edits", "exchanges"),
            }
            for each in arrivals
        ]
        write_json(terminal, {"dry_run": dry_run, "memories": memories})
    else:
        page = Page.of(terminal)
        rows = [
            ((one_line(each.at or each.path),), _OUTCOMES[each.outcome], (one_line(_remarks(each)),))
            for each in arrivals
        ]
        page.write(page.table(_IMPORT_COLUMNS, rows) if rows else (), terminal)
        counts: Counter[str] = Counter(memory.outcome for memory in arrivals)
        outcomes = ", ".join(f"{counts[key]} {name}" for key, (name, *_) in _OUTCOMES.items() if counts[key])
        total = f"{'would import ' if dry_run else ''}{plural(len(arrivals), 'memory')}: {outcomes}"
        terminal.note(total if arrivals else "the archive is empty")
        if counts["orphaned"] and not dry_run:
            terminal.note("attach one without a file with: repoagent memory relink FILE --from NAME", "dim")
    return Exit.DONE if any(each.outcome != "same" for each in arrivals) else Exit.NOTHING


def _read(repo: Repository, file: str) -> tuple[list[ArchivedMemory], bool]:
    """The memories in an archive, and whether `gc` archived them in this repository."""
    from repoagent.memory.archive.format import read_archive, read_folder
    from repoagent.memory.archive.gc import archive_folder

    if file == "-":
        if repo.terminal.input_tty:
            raise UsageError("no archive on standard input; pipe one in, or name a file")
        return read_archive(sys.stdin.buffer, "standard input"), False
    path = repo.cwd / file
    own = os.path.realpath(path.parent) == os.path.realpath(archive_folder(repo.layout))
    if own and path.is_dir():
        return [read_folder(path)], True
    try:
        with path.open("rb") as stream:
            if not path.is_file():
                raise UsageError(f"{file} is not a file")
            return read_archive(stream, file, own=own), own
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file: {file}") from error
    except IsADirectoryError as error:
        raise UsageError(f"{file} is a directory; name an archive") from error


def _remarks(memory: Arrival) -> str:
    """The new entries of an imported memory, and the reason if it has no file."""
    counts = memory.counts
    new = _count(note=counts.notes, edit=counts.edits, exchange=counts.exchanges)
    moved = memory.why or (f"from {memory.path}" if memory.at and memory.at != memory.path else "")
    name = f"as {memory.folder}" if memory.outcome == "orphaned" else ""
    return "; ".join(filter(None, [new, moved, name]))


GC_EXAMPLES = """\b
Examples:
  repoagent memory gc                     list what would be archived
  repoagent memory gc --apply
  repoagent memory gc --older-than 0 --apply
  repoagent memory import .repoagent/archive/NAME    restore one

A memory is kept as long as its path, or a version of its file, is in any work
tree, at the tip of any branch or in a stash. gc does not delete memories: it
moves them to .repoagent/archive/.

If conversations.keep_days is set, gc also deletes older exchanges for good, and
notes a line for each."""

_GC_COLUMNS = (
    Column("path", cut="middle", least=14),
    Column("size", right=True),
    Column("changed", dropped=1),
    Column("verdict", cut="end", least=8),
)


@click.command("gc", epilog=GC_EXAMPLES)
@click.option(
    "--older-than", metavar="DAYS", type=click.IntRange(min=0), default=14, show_default=True,
    help="Archive only memories unchanged for this many days.",
)  # fmt: skip
@click.option(
    "--apply", "-y", "--yes", "apply", is_flag=True, help="Archive the memories instead of listing them."
)
@pass_repository
def gc_command(repo: Repository, /, *, older_than: int, apply: bool, as_json: bool) -> int:
    """Archive memories whose file no longer exists anywhere. Without --apply, only list them."""
    from repoagent.memory.archive.gc import ForgottenCounts, collect, forget_conversations

    terminal = repo.terminal
    if apply:
        repo.settle()
    result = collect(repo.layout, repo.worktree, days=older_than, apply=apply, warn=terminal.warn)
    days = repo.settings.whole_or_none("conversations.keep_days")
    forgotten = ForgottenCounts()
    if days is not None:
        forgotten = forget_conversations(repo.layout, days, apply=apply, warn=terminal.warn)
    orphans = [each for each in result.judged if each.verdict != "kept"]
    code = Exit.DONE if forgotten or orphans else Exit.NOTHING
    if as_json:
        memories = [
            {
                "path": each.memory.identity.path,
                "memory": each.memory.folder.name,
                "changed": datetime.fromtimestamp(each.used).astimezone().isoformat(timespec="seconds"),
                **select(each, "verdict", "archive", bytes="size", reason="why"),
            }
            for each in result.judged
        ]
        write_json(terminal, {"applied": apply, "memories": memories, "conversations": forgotten})
        return code
    rows = []
    for each in result.judged:
        verdict = "orphan" if each.archive is None else f"archived: {repo.shown(each.archive)}"
        if each.verdict == "kept":
            verdict = f"kept: {each.why}"
        day = datetime.fromtimestamp(each.used).date().isoformat() if each.used else ""
        style = [] if each.verdict == "kept" else ["yellow"]
        path = one_line(each.memory.identity.path)
        rows.append(((path,), (amount(each.size),), (day,), (one_line(verdict), *style)))
    page = Page.of(terminal)
    page.write(page.table(_GC_COLUMNS, rows) if rows else (), terminal)
    size = f"{plural(len(orphans), 'memory')} ({amount(sum(each.size for each in orphans))})"
    if orphans and apply:
        terminal.note(f"archived {size} in .repoagent/archive/")
    elif orphans:
        terminal.note(f"would archive {size}; do it with `repoagent memory gc --apply`")
    else:
        remaining = f"; {len(rows)} without a file in this work tree kept" if rows else ""
        terminal.note(f"nothing to archive in {plural(result.memories, 'memory')}{remaining}")
    if forgotten:
        verb = "deleted" if apply else "would delete"
        counts = [
            _count(exchange=forgotten.exchanges),
            f"{_count(conversation=forgotten.unfinished)} of unfinished edits"
            if forgotten.unfinished
            else "",
            _count(earlier_copy=forgotten.copies, past_run=forgotten.runs),
            amount(forgotten.bytes),
        ]
        terminal.note(f"{verb} entries older than {days} days: {', '.join(filter(None, counts))}")
    return code


FEW = 3  # model calls that need no confirmation
COMPACT_EXAMPLES = """\b
Examples:
  repoagent memory compact src/app.py
  repoagent memory compact --all --dry-run
  repoagent memory compact src/app.py --model anthropic/claude-haiku-4-5

The oldest exchanges move to the memory's archive/ folder unchanged, and a note
has a line for each; the last two stay. A model (--model or summary.model) also
notes what is worth keeping. Above memory.limit bytes this happens
automatically.

Exit codes 4 and 5 are those of an edit: no usable model, or a limit."""


@click.command("compact", epilog=COMPACT_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete)
@click.option("--all", "everything", is_flag=True, help="Compact every conversation with old exchanges.")
@click.option("--plain", is_flag=True, help="Use no model, even if one is configured for summaries.")
@model_option
@max_cost_option
@record_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be archived; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many model calls.")
@json_option
@pass_session
def compact_command(session: Session, /, **values: Any) -> int:
    """Archive the old exchanges about FILES."""
    from repoagent.cli.commands.summaries import open_for_summaries

    options = SimpleNamespace(**values)
    if bool(options.files) == options.everything:
        raise UsageError(
            "--all cannot be combined with files" if options.files else "no files: name them, or use --all"
        )
    if options.plain and options.model:
        raise UsageError("--plain cannot be combined with --model")
    repo = open_repository(session)
    settings, terminal = open_for_summaries(session, repo.layout, options)
    repo = repo._replace(settings=settings, terminal=terminal)
    todo = _with_old_exchanges(repo, options)
    if not todo:
        raise NothingDone("nothing to compact: the last two exchanges about a file always stay")
    if options.dry_run:
        _show_compaction(repo, [(memory, None, number) for memory, number in todo], None, options)
        return Exit.DONE
    uses_model = not options.plain and (options.model or settings.text_or_none("summary.model"))
    ready = _open_model(repo, len(todo), options) if uses_model else None
    done: list[tuple[Memory, CompactionResult | None, int]] = []
    failed: Refused | None = None
    for memory, number in todo:
        try:
            compacted = _compact(repo, memory, ready)
        except Refused as error:  # an unreadable conversation does not stop the others
            if len(todo) == 1:
                raise
            terminal.warn(str(error))
            failed = error
        except RepoagentError:  # such as a limit: report the completed ones first
            if done and not options.as_json:
                _show_compaction(repo, done, None, options)
            raise
        else:
            done += [] if compacted is None else [(memory, compacted, number)]
    if failed is not None and not done:
        raise failed
    _show_compaction(repo, done, ready, options)
    return Exit.DONE if done else Exit.NOTHING


def _with_old_exchanges(repo: Repository, options: SimpleNamespace) -> list[tuple[Memory, int]]:
    """The memories with old exchanges, of `files` or all, with the number of exchanges."""
    from repoagent.memory.compaction import old_exchanges
    from repoagent.memory.identity.store import memories

    if options.files:
        chosen = find_memories(repo, options.files, rekey=not options.dry_run)
        return [(memory, number) for memory in chosen if (number := old_exchanges(memory))]
    old = []
    for memory in memories(repo.layout, warn=repo.terminal.warn):
        try:
            old.append((memory, old_exchanges(memory)))
        except Refused as error:
            repo.terminal.warn(str(error))
    return [(memory, number) for memory, number in old if number]


def _open_model(repo: Repository, calls: int, options: SimpleNamespace) -> ModelSetup:
    from repoagent.cli.ui.progress import agree, ready_for
    from repoagent.llm.model import display_name

    waiting = repo.terminal.working("asking the model")
    ready = ready_for(repo.settings, repo.terminal, waiting, record=options.record)
    sentence = f"{display_name(ready.model.spec)} would choose what to keep, in {plural(calls, 'call')}"
    agree(repo.terminal, sentence, few=options.yes or calls <= FEW, less="name fewer files")
    return ready


def _compact(repo: Repository, memory: Memory, ready: ModelSetup | None) -> CompactionResult | None:
    from repoagent.cli.commands.summaries import charge
    from repoagent.llm.complete import complete as call
    from repoagent.llm.model import Message, Part, Request, public
    from repoagent.memory.compaction import compact

    if ready is None:
        return compact(memory, warn=repo.terminal.warn)
    path, model, meter, most = memory.identity.path, ready.model, ready.meter, ready.max_output_tokens

    def ask(question: str) -> str:
        key = json.dumps({"compact": sha256(question.encode("utf-8", "surrogatepass")).hexdigest()})
        return call(model, Request((), (Message("user", (Part(question, "text"),)),), most, key), meter).text

    charge(ready, "memory compact", repo.worktree.top, (path,))
    with repo.terminal.working(f"choosing what to keep of {path}"):
        return compact(memory, ask, source=public(model.spec), warn=repo.terminal.warn)


def _show_compaction(
    repo: Repository,
    done: list[tuple[Memory, CompactionResult | None, int]],
    ready: ModelSetup | None,
    options: SimpleNamespace,
) -> None:
    from repoagent.cli.ui.progress import as_object, report

    files = []
    for memory, result, number in done:
        path = memory.identity.path
        row: dict[str, Any] = {"exchanges": number, "bytes": None, "archive": None, "notes": []}
        line = f"would archive {plural(number, 'exchange')}"
        if result is not None:
            row = select(result, "exchanges", "bytes", "archive", "notes")
            line = (
                f"archived {plural(result.exchanges, 'exchange')} ({amount(result.bytes)}) in "
                f"{one_line(repo.shown(result.archive))}, kept {plural(len(result.notes), 'note')} of them"
            )
        files.append({"path": path, "memory": memory.folder.name, **row})
        if not options.as_json:
            repo.terminal.result(f"{one_line(path)}: {line}\n")
    if options.as_json:
        write_json(repo.terminal, {"files": files, "spent": None if ready is None else as_object(ready)})
    elif ready is not None:
        report(repo.terminal, ready)
