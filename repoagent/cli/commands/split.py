"""`repoagent split`: split a file into segments, refresh them, and join them into the source with a commit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import edit_request, is_given, option_flag, parse_check, refuse_conflicts
from repoagent.cli.session import Session, json_option, pass_session, select_fields
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import list_some, one_line, plural, sanitize
from repoagent.errors import Exit, Refused, UsageError
from repoagent.split.folder_index import VERSION, SplitIndex, base_bytes, display_path, quoted_path
from repoagent.storage.json_files import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.join import JoinOutcome
    from repoagent.split.join import SegmentConflict
    from repoagent.split.pack import Segment
    from repoagent.split.refresh import RefreshResult
    from repoagent.split.source import SourceText

EXAMPLES = """\b
Examples:
  repoagent split lib/parser.c         into .repoagent/splits/lib-parser.c
  repoagent split notes.md --natural   a segment for each section
  repoagent split notes.md -o parts    into a folder of your choice
  repoagent split --refresh parts      after the source has changed
  repoagent split --join parts         commit your edits
  curl -s URL | repoagent split - --language html -o page
  repoagent split data.json --json | jq '.segments[].symbols[].name'

The segments, joined in the order of index.json, are exactly the file. Files are
cut between functions, sections or keys; a comment stays with what it describes.
A function, section or key is cut only if it does not fit into one segment.

A segment that you edited is never overwritten or removed: repoagent refuses to
split the file again, and --refresh keeps the segment and reports whether it
needs a merge."""
OF_JOIN = ("dry_run", "no_commit", "include_dirty", "no_parse_check", "force", "words")  # options
OF_SPLIT = ("file", "output", "target", "natural", "language", "refresh")


@click.command(epilog=EXAMPLES)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-o", "--output", metavar="DIR", help="Write the segments to folder DIR.")
@click.option(
    "--target-bytes", "target", type=int, metavar="N", help="The maximum size of a segment.  [default: 16384]"
)
@click.option("--natural", is_flag=True, help="Give each outermost function, section or key its own segment.")
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not imply it.")
@click.option("--refresh", metavar="INDEX", help="Update a split after its source has changed.")
@click.option("--join", metavar="INDEX", help="Join the edited segments into the source, in one commit.")
@click.option("-n", "--dry-run", is_flag=True, help="With --join: show the diff; write nothing.")
@click.option("--no-commit", is_flag=True, help="With --join: write the file without committing it.")
@click.option(
    "--include-dirty", is_flag=True, help="With --join: also commit your other changes to the file."
)
@click.option("--no-parse-check", is_flag=True, help="With --join: accept a result that does not parse.")
@click.option(
    "--force", is_flag=True,
    help="With --join: on a conflict, show the conflicting source changes and, if you confirm, discard them.",
)  # fmt: skip
@click.option(
    "-m",
    "--message",
    "words",
    multiple=True,
    metavar="TEXT",
    help="With --join: the commit message. Repeatable.",
)
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> Exit | None:
    """Split FILE at natural boundaries into a folder of segments; - is standard input.

    Each segment is a file. `index.json` has their positions and symbols, `base` the original text. The folder is a new
    one in .repoagent/splits unless you use -o.
    """
    options = SimpleNamespace(**values)
    if options.join is not None:
        if any(is_given(options, option) for option in OF_SPLIT):
            raise UsageError("--join INDEX cannot be combined with FILE or with options for splitting")
        return _join(session, options)
    for option in OF_JOIN:
        if is_given(options, option):
            raise UsageError(f"{option_flag(option)} needs --join INDEX")
    terminal, cwd = session.terminal(), Path.cwd()
    if options.refresh is None:
        if not options.file:
            raise UsageError("no file to split; use repoagent split FILE, or - for standard input")
        _split(terminal, options, cwd)
        return None
    from repoagent.split.refresh import refresh_split

    if options.output is not None:
        raise UsageError("--refresh cannot be combined with -o")
    text = None if options.file is None else _text(options.file, cwd)
    with terminal.working(f"refreshing {options.refresh}"):
        done = refresh_split(
            cwd / options.refresh, cwd, text=text,
            target=options.target, natural=options.natural or None, language=options.language,
        )  # fmt: skip
    if options.as_json:
        terminal.styled(_json(done.index, done))
    else:
        _show(done.index, base_bytes(done.index), terminal, cwd, done)
    return None


def _split(terminal: Terminal, options: SimpleNamespace, cwd: Path) -> None:
    from repoagent.split import source as split_source
    from repoagent.split.folder_writer import create_split
    from repoagent.split.pack import TARGET_BYTES

    output = options.output
    target = TARGET_BYTES if options.target is None else options.target
    how = split_source.SplitOptions(target, options.natural, options.language)
    split_source.check_options(how)
    text = _text(options.file, cwd)
    split_source.check_text(text, how)
    with terminal.working(f"splitting {text.path or 'standard input'}"):
        written = True
        if output is not None:
            index = create_split(text, how, cwd / output)
        elif options.as_json and (text.worktree is None or not text.path):
            written, index = False, split_source.new_index(text, how, Path())
        else:
            index = create_split(text, how)
    if options.as_json:
        terminal.styled(_json(index, written=written))
    else:
        _show(index, text.data, terminal, cwd)


def _text(file: str, cwd: Path) -> SourceText:
    import sys

    from repoagent.git.files import LARGEST
    from repoagent.split.source import SourceText, find_text, find_worktree

    if file != "-":
        return find_text(file, cwd)
    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Refused(f"standard input is larger than {LARGEST:,} bytes, the maximum for split")
    try:
        return SourceText("", data, find_worktree(cwd))
    except UsageError:  # a bare repository, or one that git refuses: treat it as none
        return SourceText("", data)


def _json(index: SplitIndex, done: RefreshResult | None = None, *, written: bool = True) -> str:
    """The content of `index.json`, and the `folder` that it was written to (null if none)."""
    content = {"version": VERSION, "folder": str(index.folder) if written else None, **index.to_dict()}
    if done is not None:
        content["refresh"] = select_fields(
            done, "written", "added", "removed", "edited", "to_merge", "merged"
        )
    return dumps(content, indent=2).decode() + "\n"


_COLUMNS = (
    Column("file"),
    Column("lines"),
    Column("bytes", right=True),
    Column("content", cut="end", least=16),
    Column("cut at", dropped=1),
)
_CUT = {
    **{name: name for name in ("start", "embedded", "line")},
    "node": "syntax",
    "blank": "blank line",
    "indent": "indentation",
    "byte": "inside a line",
    "kept": "as before",
}
_MOST = 60  # rows on a terminal
_WHAT = 60  # columns of the content in a pipe


def _show(
    index: SplitIndex, data: bytes, terminal: Terminal, cwd: Path, done: RefreshResult | None = None
) -> None:
    """Print the segments of `data` as a table; at most `_MOST` of them on a terminal."""
    page, source = Page.of(terminal, least=1), index.source
    folder = one_line(display_path(index.folder, cwd))
    ending = "" if source.line_ending in {"lf", "none"} else source.line_ending
    kind = ", ".join(filter(None, (index.language, source.encoding, ending)))
    name = f"{one_line(source.path or 'standard input')} ({plural(source.size, 'byte')}, {kind})"
    lines = [*page.wrap(f"{plural(len(index.segments), 'segment')} of {name} in {folder}", "bold"), ""]
    shown = index.segments
    if done is not None:  # what the refresh changed or kept
        names = {*done.written, *done.added, *done.edited, *done.merged}
        shown = tuple(segment for segment in index.segments if segment.file in names)
    most = len(shown) if page.width is None else _MOST
    rows: list[tuple[Cell, ...]] = []
    for segment in shown[:most]:
        first, last, end = segment.first_line, segment.last_line, _CUT[segment.boundary]
        content = _content(index, segment, data)
        rows.append(
            (
                (segment.file, *(["yellow"] if done and segment.file in done.edited else [])),
                (f"{first:,}-{last:,}" if last > first else f"{first:,}", "dim"),
                f"{segment.end - segment.start:,}",
                content if page.width else page.cut(content, _WHAT),
                (f"{end}, too long", "red") if segment.oversize else (end, "dim"),
            )
        )
    lines += [*page.table(_COLUMNS, rows), ""] if rows else []
    if len(shown) > most:
        lines.append(f"and {len(shown) - most:,} more, in {folder}/index.json")
    if done is not None:
        lines += _changes(done, page)
    elif index.segments:  # the next command is on one line, for copying
        command = f"repoagent split --join {one_line(quoted_path(index.folder, cwd))}"
        lines.append(page.paint(f"edit the segments, then run: {command}", "dim"))
    else:
        lines.append("the file is empty")
    page.write(lines, terminal)


def _changes(done: RefreshResult, page: Page) -> Iterator[str]:
    edited = [name for name in done.edited if name not in done.to_merge]
    groups: tuple[tuple[Sequence[str], str, str], ...] = (
        (done.to_merge, "edited by you and changed in the source; needs a merge", "yellow"),
        (edited, "edited by you, kept", "green"),
        (done.merged, "your edit is already in the source", "green"),
        (done.written, "updated", "dim"),
        (done.added, "new", "dim"),
        (done.removed, "removed", "dim"),
    )
    if not any(names for names, _, _ in groups):
        yield from page.wrap("nothing changed", "dim")
    for names, meaning, style in groups:
        if names:
            yield from page.wrap(f"{list_some(names, 8)}: {meaning}", style)


def _content(index: SplitIndex, segment: Segment, data: bytes) -> str:
    """The scope and the outermost symbols of a segment, otherwise its first line."""
    if segment.start == segment.end:
        return "(removed from the source)"
    names: list[str] = []
    depth = segment.symbols[0].depth if segment.symbols else 0
    for symbol in segment.symbols:
        if symbol.depth <= depth:
            depth = symbol.depth
            names.append(symbol.name)
    text = ": ".join(filter(None, [" > ".join(segment.scope), ", ".join(names[:12])]))
    if not text:
        encoding = "utf-8" if index.source.encoding == "utf-8" else "latin-1"
        text = (
            data[segment.start : segment.end][:400].decode(encoding, "replace").strip().split("\n")[0][:100]
        )
    return sanitize(text.replace("\n", " ").replace("\t", " "))


CHOICES = {"y": "discard these source changes and use the segments", "q": "quit; change nothing"}
HOW = {
    "applied": "",
    "merged": "merged with a source change",
    "already": "already in the source",
    "unchanged": "unchanged",
    "conflict": "replaces a source change",
}


def _join(session: Session, options: SimpleNamespace) -> Exit:
    """Join the split of --join, and show the outcome. Raises whatever joining raises."""
    from repoagent.cli.app import settle_interrupted_edits
    from repoagent.cli.ui.progress import ProgressDisplay
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.join import join_split
    from repoagent.git.worktree import layout_of
    from repoagent.split.folder_index import read_index
    from repoagent.split.join import describe_conflicts
    from repoagent.split.source import worktree_of

    refuse_conflicts(options, {"dry_run": ("no_commit",)})
    words = "\n\n".join(options.words)
    if options.words and not words.strip():
        raise UsageError("the commit message is empty")
    cwd, index = Path.cwd(), Path(options.join)
    split = read_index(index)
    worktree = None if split.source.path.startswith("/") else worktree_of(split, cwd)
    dirs = None if worktree is None else layout_of(worktree)
    settings, terminal = session.open(dirs, parse_check(options))
    if worktree is not None:
        settle_interrupted_edits(worktree, terminal)
    working = ProgressDisplay(terminal, "")
    ui = TerminalInterface(terminal, working, yes=True, commits=not options.no_commit, model=False)
    message = words.strip("\n")
    request = edit_request(options, settings, f"{message}\n" if message else "")

    def discards(path: str, conflicts: Sequence[SegmentConflict], lost: str) -> bool:
        """Show the changes that --force discards, and ask. Raises Refused without a terminal."""
        working.quiet()
        terminal.warn(
            f"--force will discard these changes to {path} ({describe_conflicts(path, conflicts)}):"
        )
        terminal.diff(lost, aside=True)
        if not (options.dry_run or terminal.can_ask):
            files = ", ".join(dict.fromkeys(file for conflict in conflicts for file in conflict.files))
            raise Refused(
                f"--force would discard changes to {path}, which needs a terminal for confirmation; nothing was "
                f"written. Run the command in a terminal, or move {files} away, run --refresh, and make your change "
                "in the new segment"
            )
        return options.dry_run or terminal.ask("Discard them", CHOICES) == "y"

    try:
        outcome = join_split(index, cwd, request, settings, ui, discards=discards if options.force else None)
    finally:
        working.quiet()
    _show_joined(outcome, terminal, ui.shown_remarks, as_json=options.as_json)
    return Exit.DONE


def _show_joined(outcome: JoinOutcome, terminal: Terminal, shown_remarks: set[str], *, as_json: bool) -> None:
    from repoagent.cli.ui.outcome import show_commit, show_json

    if as_json:
        show_json(
            outcome, terminal,
            source=outcome.source,
            index=str(outcome.index),
            segments=outcome.segments,
            ignored=outcome.other_files,
            join_diff=None if outcome.diff is None else str(outcome.diff),
            refreshed=outcome.fresh,
        )  # fmt: skip
        return
    width = max(len(segment.file) for segment in outcome.segments)
    for segment in outcome.segments:
        counts = f"+{segment.added} -{segment.removed}"
        terminal.note(f"{segment.file:<{width}}  {counts}  {HOW[segment.how]}".rstrip())
    show_commit(outcome.result, terminal, f"{outcome.seconds:.1f} s", shown_remarks)
    if outcome.diff is not None:
        terminal.note(f"diff: {display_path(outcome.diff, Path.cwd())}")
