"""`repoagent memory export`, `import`, `gc` and `compact`: memories and old exchanges go to archives and come back."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.memory import VERSION, amount, complete, count, name, opened
from repoagent.cli.options import max_cost_option, model_option, record_option
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line, paint
from repoagent.cli.ui.table import columns, shorten
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.commands.memory import MemoryCommand
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.memory.archive.export import Exported
    from repoagent.memory.archive.format import Archive
    from repoagent.memory.archive.gc import ForgottenCounts, GcCandidate, GcResult
    from repoagent.memory.archive.import_archive import Arrival, Mode
    from repoagent.memory.compaction import Ask, CompactionResult
    from repoagent.memory.identity.record import Memory

EXPORT_EXAMPLES = """\b
Examples:
  repoagent memory export -o team.tar.gz
  repoagent memory export src docs/guide.md -o team.tar.gz
  repoagent memory export --no-conversations | ssh host 'cat > notes.tar.gz'

The archive is a tar of plain files and a manifest.json. The same memories make
the same bytes, so you can commit it. It contains nothing about this machine
and no file contents; keys and tokens are masked. Import it with `repoagent
memory import`."""


@click.command("export", epilog=EXPORT_EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete)
@click.option("-o", "--output", metavar="FILE|-", help="Write the archive to FILE; `-` is standard output.")
@click.option("--no-conversations", is_flag=True, help="Export notes and edits only.")
@json_option
@pass_session
def export_command(
    session: Session,
    /,
    *,
    paths: tuple[str, ...],
    output: str | None,
    no_conversations: bool,
    as_json: bool,
) -> int:
    """Export the memories of the files and folders PATH, or all of them, to one archive."""
    from repoagent.git.worktree import relative
    from repoagent.memory.archive.export import export
    from repoagent.storage.atomic import write_whole

    here = opened(session)
    piped = output in (None, "-")
    if piped and (as_json or (here.terminal.shows and output is None)):
        raise UsageError("no file for the archive: use -o FILE")
    target = here.cwd / (output or "-")
    if not piped:
        _check(target)
    wanted = [relative(here.worktree, path, here.cwd) if _is_path(here, path) else path for path in paths]
    found = export(
        here.layout, here.worktree, wanted, conversations=not no_conversations, warn=here.terminal.warn
    )
    if piped:
        sys.stdout.flush()
        sys.stdout.buffer.write(found.data)
        sys.stdout.buffer.flush()
    else:
        write_whole(target, found.data)
    if as_json:
        here.terminal.result(_export_json(found, target))
    else:
        _tell(here, found, None if piped else target)
    return Exit.DONE


def _is_path(here: MemoryCommand, given: str) -> bool:
    """Whether this is a path, and not the name of a memory."""
    from repoagent.memory.archive.format import NAME

    return (
        not NAME.fullmatch(given) or not (here.layout.memory / given).is_dir() or (here.cwd / given).exists()
    )


def _check(target: Path) -> None:
    if not target.parent.is_dir():
        raise UsageError(f"no such directory: {target.parent}; create it first")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise Refused(f"{target} is not a regular file; use another one, or - for standard output")


def _tell(here: MemoryCommand, found: Exported, target: Path | None) -> None:
    from repoagent.memory.archive.format import CONVERSATION, known_edits
    from repoagent.memory.notes import entries

    files = [one.parcel.files for one in found.packed]
    notes = sum(len(entries(each.get("notes.md", b""))) for each in files)
    edits = sum(len(known_edits(each.get("edits.jsonl", b""))) for each in files)
    said = sum(CONVERSATION in each for each in files)
    inside = [count(notes, "note"), count(edits, "edit"), count(said, "conversation")]
    where = "" if target is None else f"{name(here.shown(target))}: "
    here.terminal.note(
        f"{where}{count(len(files), 'memory')} ({', '.join(inside)}), {amount(len(found.data))}"
    )
    broken, lines, masked = (
        sum(getattr(one, what) for one in found.packed) for what in ("broken", "lines", "masked")
    )
    if broken:
        here.terminal.warn(f"left out {count(broken, 'unreadable file')}")
    if lines:
        here.terminal.warn(f"left out {count(lines, 'line')} of edits in a format of a newer repoagent")
    if masked:
        here.terminal.note(f"masked {masked} of what looks like a key or token")


def _export_json(found: Exported, target: Path) -> str:
    content = {
        "version": VERSION,
        "archive": str(target),
        "bytes": len(found.data),
        "memories": [
            {
                "name": one.parcel.name,
                "path": one.parcel.identity.path,
                "broken": one.broken,
                "lines_left_out": one.lines,
                "masked": one.masked,
            }
            for one in found.packed
        ],
    }
    return json.dumps(content, indent=2) + "\n"


IMPORT_EXAMPLES = """\b
Examples:
  repoagent memory import team.tar.gz --dry-run
  repoagent memory import team.tar.gz
  ssh host cat notes.tar.gz | repoagent memory import -

A memory goes to the file at its path, if the memory or git knows that file.
Otherwise it is imported without a file; attach it with `repoagent memory
relink`. What an existing memory lacks is added to it, without duplicates.
Imported entries are marked; keys and tokens in them are masked.

The exit code is 1 if everything is here already."""

_MEANING = {
    "new": "new",
    "orphaned": "no file",
    "merged": "merged",
    "same": "known",
    "kept": "ours kept",
    "replaced": "replaced",
}
_STYLES = {"new": "green", "merged": "green", "orphaned": "yellow", "replaced": "yellow"}


@click.command("import", epilog=IMPORT_EXAMPLES)
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Show what would be imported; do nothing.")
@click.option(
    "--merge", "mode", flag_value="merge", default=True, help="Merge theirs into ours (the default)."
)
@click.option("--ours", "mode", flag_value="ours", help="Skip files that have a memory here.")
@click.option("--theirs", "mode", flag_value="theirs", help="Replace ours by theirs; ours go to the archive.")
@json_option
@pass_session
def import_command(session: Session, /, *, file: str, dry_run: bool, mode: Mode, as_json: bool) -> int:
    """Import the memories of an archive, each for the file that it is about."""
    from repoagent.memory.archive.import_archive import Import, import_memories
    from repoagent.memory.archive.merge import called

    here = opened(session)
    archive, own = _read(here, file)
    if archive.object_format != here.worktree.object_format:
        here.terminal.warn(
            f"the archive comes from a {archive.object_format} repository, so its memories are imported without a file"
        )
    source = "" if own else called("" if file == "-" else Path(file).name)
    how = Import(source, mode, dry_run)
    arrivals = import_memories(here.layout, here.worktree, archive, how, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(_import_json(arrivals, dry_run=dry_run))
    else:
        _show_arrivals(here, arrivals, dry_run=dry_run)
    changed = any(one.outcome not in ("same", "kept") for one in arrivals)
    return Exit.DONE if changed else Exit.NOTHING


def _read(here: MemoryCommand, file: str) -> tuple[Archive, bool]:
    """The archive, and whether `gc` of this repository wrote it."""
    from repoagent.memory.archive.format import read_archive
    from repoagent.memory.archive.gc import archive_folder

    if file == "-":
        if here.terminal.reads:
            raise UsageError("no archive on standard input; pipe one in, or name a file")
        return read_archive(sys.stdin.buffer, "standard input"), False
    path = here.cwd / file
    own = os.path.realpath(path.parent) == os.path.realpath(archive_folder(here.layout))
    try:
        with path.open("rb") as stream:
            if not path.is_file():
                raise UsageError(f"{file} is not a file")
            return read_archive(stream, file, own=own), own
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file: {file}") from error
    except IsADirectoryError as error:
        raise UsageError(f"{file} is a directory; name an archive") from error


def _show_arrivals(here: MemoryCommand, arrivals: list[Arrival], *, dry_run: bool) -> None:
    terminal = here.terminal
    wide = max(40, terminal.width) if terminal.shows else None
    paths = [one_line(one.at or one.path) for one in arrivals]
    column = min(max(map(columns, paths), default=0), 40 if wide is None else max(16, wide // 2 - 8))
    for one, path in zip(arrivals, paths, strict=True):
        where = path if wide is None else shorten(path, column)
        meaning = _MEANING[one.outcome].ljust(9)
        style = _STYLES.get(one.outcome)
        shown = paint(meaning, style) if terminal.color and style else meaning
        rest = one_line(_import_remarks(one))
        if wide is not None:
            rest = shorten(rest, max(8, wide - column - 13))
        terminal.styled(f"{where}{' ' * (column - columns(where))}  {shown}  {rest}".rstrip() + "\n")
    counts: Counter[str] = Counter(one.outcome for one in arrivals)
    said = ", ".join(
        f"{counts[outcome]} {meaning}" for outcome, meaning in _MEANING.items() if counts[outcome]
    )
    would = "would import " if dry_run else ""
    terminal.note(f"{would}{count(len(arrivals), 'memory')}: {said}" if arrivals else "the archive is empty")
    if counts["orphaned"] and not dry_run:
        terminal.note("attach one without a file with: repoagent memory relink FILE --from NAME", "dim")


def _import_remarks(one: Arrival) -> str:
    """What is new, and why it has no file here."""
    numbers = [(one.counts.notes, "note"), (one.counts.edits, "edit"), (one.counts.exchanges, "exchange")]
    new = ", ".join(count(number, thing) for number, thing in numbers if number)
    moved = one.why or (f"from {one.path}" if one.at and one.at != one.path else "")
    named = f"as {one.folder}" if one.outcome == "orphaned" else ""
    return "; ".join(filter(None, [new, moved, named]))


def _import_json(arrivals: list[Arrival], *, dry_run: bool) -> str:
    memories = [
        {
            "path": one.path,
            "at": one.at,
            "memory": one.folder,
            "outcome": one.outcome,
            "why": one.why or None,
            "notes": one.counts.notes,
            "edits": one.counts.edits,
            "exchanges": one.counts.exchanges,
        }
        for one in arrivals
    ]
    return json.dumps({"version": VERSION, "dry_run": dry_run, "memories": memories}, indent=2) + "\n"


GC_EXAMPLES = """\b
Examples:
  repoagent memory gc                     list what would be archived
  repoagent memory gc --apply
  repoagent memory gc --older-than 0 --apply
  repoagent memory import .repoagent/archive/NAME.tar.gz    restore one

A memory stays as long as its file, or a similar one, is in any work tree, at
the tip of any branch or in a stash. gc deletes no memory: it moves each one to
an archive in .repoagent/archive/.

If conversations.keep_days is set, gc also deletes older exchanges, for good;
a line of each stays among the notes."""


@click.command("gc", epilog=GC_EXAMPLES)
@click.option(
    "--older-than", metavar="DAYS", type=click.IntRange(min=0), default=14, show_default=True,
    help="Only memories unchanged for this many days.",
)  # fmt: skip
@click.option("--apply", "-y", "--yes", "apply", is_flag=True, help="Archive them instead of listing them.")
@json_option
@pass_session
def gc_command(session: Session, /, *, older_than: int, apply: bool, as_json: bool) -> int:
    """Archive memories whose file is gone everywhere. Without --apply, only list them."""
    from repoagent.cli.app import settle
    from repoagent.memory.archive.gc import ForgottenCounts, collect, forget_conversations

    here = opened(session)
    if apply:
        settle(here.worktree, here.terminal)
    found = collect(here.layout, here.worktree, days=older_than, apply=apply, warn=here.terminal.warn)
    days = here.settings.whole_or_none("conversations.keep_days")
    said = ForgottenCounts()
    if days is not None:
        said = forget_conversations(here.layout, days, apply=apply, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(_gc_json(found, said, apply=apply))
    else:
        _show_collected(here, found, apply=apply)
        _show_said(here, said, days, apply=apply)
    wanted = "put away" if apply else "orphan"
    return Exit.DONE if said or any(one.verdict == wanted for one in found.judged) else Exit.NOTHING


def _show_collected(here: MemoryCommand, found: GcResult, *, apply: bool) -> None:
    terminal = here.terminal
    wide = max(40, terminal.width) if terminal.shows else None
    rows = [(one_line(one.memory.identity.path), amount(one.size), _day(one), one) for one in found.judged]
    column = min(
        max((columns(row[0]) for row in rows), default=0), 40 if wide is None else max(14, wide // 3)
    )
    for path, size, day, one in rows:
        where = path if wide is None else shorten(path, column)
        head = f"{where}{' ' * (column - columns(where))}  {size:>8}  {day}  "
        rest = one_line(_gc_remarks(here, one))
        if wide is not None:
            rest = shorten(rest, max(8, wide - columns(head)))
        style = None if one.verdict == "kept" else "yellow"
        terminal.styled(f"{head}{paint(rest, style) if terminal.color and style else rest}\n")
    chosen = [one for one in found.judged if one.verdict == ("put away" if apply else "orphan")]
    size = amount(sum(one.size for one in chosen))
    if chosen and apply:
        terminal.note(f"archived {count(len(chosen), 'memory')} ({size}) in .repoagent/archive/")
    elif chosen:
        terminal.note(
            f"would archive {count(len(chosen), 'memory')} ({size}); do it with `repoagent memory gc --apply`"
        )
    else:
        kept = f"; kept {len(rows)} without a file here" if rows else ""
        terminal.note(f"nothing to archive in {count(found.memories, 'memory')}{kept}")


def _show_said(here: MemoryCommand, said: ForgottenCounts, days: int | None, *, apply: bool) -> None:
    if not said:
        return
    inside = [
        (said.exchanges, "exchange"),
        (said.unfinished, "conversation of an unfinished edit"),
        (said.copies, "earlier copy"),
        (said.runs, "past run"),
    ]
    what = ", ".join(
        count(number, thing) if " " not in thing else _several(number, thing)
        for number, thing in inside
        if number
    )
    verb = "deleted" if apply else "would delete"
    here.terminal.note(f"{verb} what is older than {days} days: {what}, {amount(said.bytes)}")


def _several(number: int, thing: str) -> str:
    if number == 1:
        return f"1 {thing}"
    plural = {
        "conversation of an unfinished edit": "conversations of unfinished edits",
        "earlier copy": "earlier copies",
        "past run": "past runs",
    }
    return f"{number:,} {plural[thing]}"


def _day(one: GcCandidate) -> str:
    return datetime.fromtimestamp(one.used).date().isoformat() if one.used else "          "


def _gc_remarks(here: MemoryCommand, one: GcCandidate) -> str:
    if one.verdict == "kept":
        return f"kept: {one.why}"
    return "orphan" if one.archive is None else f"archived: {here.shown(one.archive)}"


def _gc_json(found: GcResult, said: ForgottenCounts, *, apply: bool) -> str:
    memories = [
        {
            "path": one.memory.identity.path,
            "memory": one.memory.folder.name,
            "bytes": one.size,
            "changed": datetime.fromtimestamp(one.used).astimezone().isoformat(timespec="seconds"),
            "verdict": one.verdict,
            "why": one.why or None,
            "archive": None if one.archive is None else str(one.archive),
        }
        for one in found.judged
    ]
    content = {
        "version": VERSION,
        "applied": apply,
        "memories": memories,
        "conversations": {**vars(said)},
    }
    return json.dumps(content, indent=2) + "\n"


FEW = 3  # model calls that need no confirmation
COMPACT_EXAMPLES = """\b
Examples:
  repoagent memory compact src/app.py
  repoagent memory compact --all --dry-run
  repoagent memory compact src/app.py --model anthropic/claude-haiku-4-5

The oldest exchanges move to the memory's archive/ folder, byte for byte, and
each leaves a line among the notes; the last two stay. A model (--model or
summary.model) also notes what is worth keeping. Above memory.limit bytes this
happens automatically.

The exit codes 4 and 5 are about the model, as for an edit."""


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
def compact_command(session: Session, /, files: tuple[str, ...], **options: Any) -> int:
    """Archive the old exchanges about FILES."""
    if bool(files) == options["everything"]:
        raise UsageError(
            "--all cannot be combined with files" if files else "no files: name them, or use --all"
        )
    if options["plain"] and options["model"]:
        raise UsageError("--plain cannot be combined with --model")
    flags = {"model": options["model"], "max_cost": options["max_cost"]}
    here = opened(session, flags)
    model = options["model"] or here.settings.text_or_none("summary.model")
    if not options["model"] and model and not options["plain"]:
        here = opened(session, {**flags, "model": model})
    todo = _todo(here, files, rekey=not options["dry_run"])
    if not todo:
        raise NothingDone("nothing to compact: the last two exchanges about a file always stay")
    if options["dry_run"]:
        _show_compaction(here, [(memory, None, number) for memory, number in todo], None, options)
        return Exit.DONE
    ready = _ready(here, len(todo), options) if model and not options["plain"] else None
    done: list[Any] = []
    failed: Refused | None = None
    for memory, number in todo:
        try:
            found = _compact(here, memory, ready)
        except Refused as error:  # an unreadable one does not stop the others
            if len(todo) == 1:
                raise
            here.terminal.warn(str(error))
            failed = error
            continue
        except RepoagentError:  # a limit was reached, say: what is done is done
            if done and not options["as_json"]:
                _show_compaction(here, done, None, options)
            raise
        if found is not None:
            done.append((memory, found, number))
    if failed is not None and not done:
        raise failed
    _show_compaction(here, done, ready, options)
    return Exit.DONE if done else Exit.NOTHING


def _todo(here: MemoryCommand, files: tuple[str, ...], *, rekey: bool) -> list[tuple[Memory, int]]:
    """The memories with old exchanges, and the number of these."""
    from repoagent.memory.compaction import old_exchanges
    from repoagent.memory.identity.store import memories
    from repoagent.memory.lookup import require_memory

    if files:
        named = [
            require_memory(here.layout, here.worktree, here.named(file, rekey=rekey), warn=here.terminal.warn)
            for file in files
        ]
        chosen = list({memory.folder: memory for memory in named}.values())
        return [(memory, number) for memory in chosen if (number := old_exchanges(memory))]
    old = []
    for memory in memories(here.layout, warn=here.terminal.warn):
        try:
            number = old_exchanges(memory)
        except Refused as error:
            here.terminal.warn(str(error))
        else:
            old += [(memory, number)] if number else []
    return old


def _ready(here: MemoryCommand, calls: int, options: dict[str, Any]) -> ModelSetup:
    from repoagent.cli.ui.progress import agree, ready_for
    from repoagent.llm.model import display_name

    waiting = here.terminal.working("asking the model")
    ready = ready_for(here.settings, here.terminal, waiting, record=options["record"])
    sentence = f"{display_name(ready.model.spec)} would choose what to keep, in {count(calls, 'call')}"
    agree(here.terminal, sentence, few=options["yes"] or calls <= FEW, less="name fewer files")
    return ready


def _compact(here: MemoryCommand, memory: Memory, ready: ModelSetup | None) -> CompactionResult | None:
    from repoagent.llm.model import public
    from repoagent.memory.compaction import compact

    if ready is None:
        return compact(memory, warn=here.terminal.warn)
    with here.terminal.working(f"choosing what to keep of {memory.identity.path}"):
        return compact(
            memory, _ask(here, memory, ready), source=public(ready.model.spec), warn=here.terminal.warn
        )


def _ask(here: MemoryCommand, memory: Memory, ready: ModelSetup) -> Ask:
    from repoagent.llm.client import complete as call
    from repoagent.llm.model import Message, Part, Request

    book = ready.meter.book
    if book is not None:
        ready.meter.book = book.about("memory compact", str(here.worktree.top), (memory.identity.path,))

    def ask(question: str) -> str:
        key = json.dumps({"compact": sha256(question.encode("utf-8", "surrogatepass")).hexdigest()})
        request = Request((), (Message("user", (Part(question, "text"),)),), ready.max_output_tokens, key)
        return call(ready.model, request, ready.meter).text

    return ask


def _show_compaction(
    here: MemoryCommand, done: list[Any], ready: ModelSetup | None, options: dict[str, Any]
) -> None:
    from repoagent.cli.ui.progress import as_object, report

    terminal = here.terminal
    if options["as_json"]:
        files = [
            {
                "path": memory.identity.path,
                "memory": memory.folder.name,
                "exchanges": number if found is None else found.exchanges,
                "bytes": None if found is None else found.bytes,
                "archive": None if found is None else str(found.archive),
                "notes": [] if found is None else [vars(note) for note in found.notes],
            }
            for memory, found, number in done
        ]
        asked = None if ready is None else as_object(ready)
        terminal.result(json.dumps({"version": VERSION, "files": files, "asked": asked}, indent=2) + "\n")
        return
    for memory, found, number in done:
        if found is None:
            terminal.result(f"{name(memory.identity.path)}: would archive {count(number, 'exchange')}\n")
            continue
        terminal.result(
            f"{name(memory.identity.path)}: archived {count(found.exchanges, 'exchange')} ({amount(found.bytes)}) in "
            f"{name(here.shown(found.archive))}, kept {count(len(found.notes), 'note')} of them\n"
        )
    if ready is not None:
        report(terminal, ready)
