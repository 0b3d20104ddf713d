"""`repoagent split`: split a file into segments, refresh and join them, and list the languages that have a grammar."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.split_join import join_options, join_segments, refuse_without_join
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Cell, Column, bar
from repoagent.cli.ui.terminal_text import clean, one_line
from repoagent.errors import Exit, UsageError
from repoagent.split.folder_index import VERSION, display_path, quoted_path
from repoagent.storage.json_files import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.split.folder import OptionChanges, SplitOptions
    from repoagent.split.folder_index import Index, IndexedSegment
    from repoagent.split.refresh import RefreshResult
    from repoagent.split.source import SourceText

EXAMPLES = """\b
Examples:
  repoagent split lib/parser.c       into .repoagent/splits/lib-parser.c
  repoagent split notes.md -o parts --natural  a segment for each section
  repoagent split --refresh parts    after the source has changed
  repoagent split --join parts       commit your edits
  curl -s URL | repoagent split - --language html -o page
  repoagent split data.json --json | jq '.segments[].symbols[].name'

The segments in the order of index.json are the file, byte for byte. Cuts fall
between functions, sections or keys; a comment stays with what it describes. A
unit is cut inside only if it is larger than a segment.

A segment that you edited is never overwritten or removed: splitting the file
again is refused, and --refresh keeps the segment and reports whether it needs
a merge."""


@click.command(epilog=EXAMPLES)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-o", "--output", metavar="DIR", help="Write the segments to folder DIR.")
@click.option(
    "--target-bytes", "target", type=int, metavar="N",
    help="The maximum size of a segment.  [default: 16384]",
)  # fmt: skip
@click.option("--natural", is_flag=True, help="Make each outermost unit a segment, however small.")
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not show it.")
@click.option("--refresh", "index", metavar="INDEX", help="Update a split after its source has changed.")
@join_options
@click.option("--list-languages", is_flag=True, help="List the languages that have a grammar.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    file: str | None,
    output: str | None,
    target: int | None,
    natural: bool,
    language: str | None,
    index: str | None,
    list_languages: bool,
    as_json: bool,
    **join_values: Any,
) -> Exit | None:
    """Split FILE at natural boundaries into a folder of segments; - is standard input.

    Each segment is a file. `index.json` has their positions and symbols, `base` the original text. The folder is a new
    one in .repoagent/splits, or the one of -o.
    """
    options = SimpleNamespace(**join_values, as_json=as_json)
    if options.join is not None:
        if file is not None or (output, target, language, index) != (None,) * 4 or natural or list_languages:
            raise UsageError("--join INDEX cannot be combined with FILE or other options for splitting")
        return join_segments(session, options.join, options)
    refuse_without_join(options)
    terminal = session.terminal()
    if list_languages:
        _list_languages(terminal, as_json=as_json)
        return None
    if index is not None:
        if output is not None:
            raise UsageError("--refresh cannot be combined with -o")
        from repoagent.split.folder import OptionChanges

        _refresh(terminal, index, file, OptionChanges(target, natural or None, language), as_json=as_json)
        return None
    if not file:
        raise UsageError("no file to split; use repoagent split FILE, or - for standard input")
    from repoagent.split.folder import SplitOptions
    from repoagent.split.pack import TARGET_BYTES

    ways = SplitOptions(TARGET_BYTES if target is None else target, natural, language)
    _split(terminal, file, ways, output, as_json=as_json)
    return None


def _split(terminal: Terminal, file: str, ways: SplitOptions, output: str | None, *, as_json: bool) -> None:
    from pathlib import Path

    from repoagent.split.create import create
    from repoagent.split.folder import check_options, check_text, default_folder, new_index

    cwd = Path.cwd()
    check_options(ways)
    text = _text(file, cwd)
    check_text(text, ways)
    nowhere = output is None and as_json and (text.worktree is None or not text.path)
    folder = Path() if nowhere else default_folder(text) if output is None else cwd / output
    with terminal.working(f"splitting {text.path or 'standard input'}"):
        if output is None and not nowhere:
            _prepare(text)
        index = new_index(text, ways, folder) if nowhere else create(text, ways, folder)
    if as_json:
        terminal.styled(render_json(index, written=not nowhere))
    else:
        _show(index, text.data, terminal, cwd)


def _refresh(
    terminal: Terminal, options: str, file: str | None, other: OptionChanges, *, as_json: bool
) -> None:
    from pathlib import Path

    from repoagent.split.folder_index import base_bytes
    from repoagent.split.refresh import refresh

    cwd = Path.cwd()
    text = None if file is None else _text(file, cwd)
    with terminal.working(f"refreshing {options}"):
        done = refresh(cwd / options, cwd, text=text, other=other)
    if as_json:
        terminal.styled(render_json(done.index, done))
    else:
        _show(done.index, base_bytes(done.index), terminal, cwd, done)


def _text(file: str, cwd: Path) -> SourceText:
    from repoagent.split.source import SourceText, find_text, find_worktree

    if file != "-":
        return find_text(file, cwd)
    import sys

    from repoagent.errors import Refused
    from repoagent.git.files import LARGEST

    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Refused(f"standard input is larger than {LARGEST:,} bytes, the maximum for split")
    try:
        return SourceText("", data, find_worktree(cwd))
    except UsageError:  # a bare repository, or one that git refuses: the text has no place in it anyway
        return SourceText("", data)


def _prepare(text: SourceText) -> None:
    """Create `.repoagent`, which git ignores, and the folder of splits in it."""
    from repoagent.git.worktree import layout
    from repoagent.storage.folders import open_folder
    from repoagent.storage.layout import ensure

    if text.worktree is not None:
        place = layout(text.worktree)
        ensure(place)
        with open_folder(place.splits, create=True):
            pass


def render_json(index: Index, done: RefreshResult | None = None, *, written: bool = True) -> str:
    """The content of `index.json`, with the `folder` that it was written to (null for none)."""
    content = {"version": VERSION, "folder": str(index.folder) if written else None, **index.to_dict()}
    if done is not None:
        content["refresh"] = {
            "written": done.written,
            "added": done.added,
            "removed": done.removed,
            "edited": done.edited,
            "to_merge": done.to_merge,
            "merged": done.merged,
        }
    return dumps(content, indent=2).decode() + "\n"


_COLUMNS = (
    Column("file"),
    Column("lines"),
    Column("", dropped=2),
    Column("bytes", right=True),
    Column("content", cut="end", least=16),
    Column("cut at", dropped=1),
)
_CUT = {
    "start": "start",
    "node": "syntax",
    "embedded": "embedded",
    "blank": "blank line",
    "indent": "indentation",
    "line": "line",
    "byte": "inside a line",
    "kept": "as before",
}
_MOST = 60  # rows on a terminal
_WHAT = 60  # columns of the content in a pipe


def _show(
    index: Index, data: bytes, terminal: Terminal, cwd: Path, done: RefreshResult | None = None
) -> None:
    """Print the segments of `data` as a table; a terminal gets at most `_MOST` of them."""
    page = Page.of(terminal, least=1)
    folder = one_line(display_path(index.folder, cwd))
    lines = [*_headline(index, folder, page), ""]
    shown = index.segments
    if done is not None:  # what the refresh changed or kept
        names = {*done.written, *done.added, *done.edited, *done.merged}
        shown = tuple(segment for segment in index.segments if segment.file in names)
    if shown:
        most = len(shown) if page.width is None else _MOST
        lines += [*_table(index, shown[:most], data, done, page), ""]
        if len(shown) > most:
            lines.append(f"and {len(shown) - most:,} more, in {folder}/index.json")
    if done is not None:
        lines += _changes(done, page)
    elif index.segments:  # the next command on one line, so that it can be copied
        command = f"repoagent split --join {one_line(quoted_path(index.folder, cwd))}"
        lines.append(page.paint(f"edit the segments, then run: {command}", "dim"))
    else:
        lines.append("the file is empty")
    page.write(lines, terminal)


def _headline(index: Index, folder: str, page: Page) -> Iterator[str]:
    source = index.source
    ending = "" if source.line_ending in {"lf", "none"} else source.line_ending
    kind = ", ".join(filter(None, (index.language, source.encoding, ending)))
    name = one_line(source.path or "standard input")
    count = plural(len(index.segments), "segment")
    return page.sentence(f"{count} of {name} ({plural(source.size, 'byte')}, {kind}) in {folder}", "bold")


def _changes(done: RefreshResult, page: Page) -> Iterator[str]:
    groups = (
        (done.to_merge, "edited by you and changed in the source; needs a merge", "yellow"),
        ([name for name in done.edited if name not in done.to_merge], "edited by you, kept", "green"),
        (done.merged, "your edit is already in the source", "green"),
        (done.written, "updated", ""),
        (done.added, "new", ""),
        (done.removed, "removed", ""),
    )
    if not any(names for names, _, _ in groups):
        yield from page.sentence("nothing changed", "dim")
    for names, what, color in groups:
        if names:
            yield from page.sentence(f"{_some(names)}: {what}", *([color] if color else []))


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(
    index: Index, segments: Sequence[IndexedSegment], data: bytes, done: RefreshResult | None, page: Page
) -> Iterator[str]:
    bars = 10 if page.width is None or page.width >= 76 else 6
    mine = {*done.edited} if done else set()
    rows: list[tuple[Cell, ...]] = []
    for segment in segments:
        what, end = _what(index, segment, data), "red" if segment.oversize else "dim"
        rows.append(
            (
                (segment.file, *(["yellow"] if segment.file in mine else [])),
                (_lines(segment), "dim"),
                (bar((segment.end - segment.start) / index.target, bars, ascii_only=page.ascii), "cyan"),
                (f"{segment.end - segment.start:,}",),
                (what if page.width else page.cut(what, _WHAT),),
                (_CUT[segment.boundary] + (", too long" if segment.oversize else ""), end),
            )
        )
    return page.table(_COLUMNS, rows)


def _lines(segment: IndexedSegment) -> str:
    more = segment.last_line > segment.first_line
    return f"{segment.first_line:,}-{segment.last_line:,}" if more else f"{segment.first_line:,}"


def _what(index: Index, segment: IndexedSegment, data: bytes) -> str:
    """The scope and the outermost symbols of a segment, or else its first line."""
    if segment.start == segment.end:
        return "(removed from the source)"
    names: list[str] = []
    depth = segment.symbols[0].depth if segment.symbols else 0
    for symbol in segment.symbols:
        if symbol.depth <= depth:
            depth = symbol.depth
            names.append(symbol.name)
    parts = [" > ".join(segment.scope), ", ".join(names[:12])]
    text = ": ".join(filter(None, parts))
    if not text:
        encoding = "utf-8" if index.source.encoding == "utf-8" else "latin-1"
        start = data[segment.start : min(segment.end, segment.start + 400)].decode(encoding, "replace")
        text = next((line.strip() for line in start.splitlines() if line.strip()), "")[:100]
    return clean(text.replace("\n", " ").replace("\t", " "))


_LANGUAGE_COLUMNS = (
    Column("language"),
    Column("grammar"),
    Column("installed"),
    Column("suffixes and names", cut="end", least=16),
)


def _list_languages(terminal: Terminal, *, as_json: bool) -> None:
    """List the languages: their grammars, whether these are installed, and the suffixes."""
    from importlib.util import find_spec

    from repoagent.syntax.languages import LANGUAGES, LONG_TAIL, is_available

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "grammar": "built in",
            "installed": find_spec(f"tree_sitter_{language.package}") is not None,
            "suffixes": language.suffixes,
            "names": language.names,
        }
        for name, language in sorted(LANGUAGES.items())
        if name not in LONG_TAIL
    ]
    for name, extra in sorted(LONG_TAIL.items()):
        entry = {"name": name, "grammar": "extra", "installed": is_available(name)}
        rows.append({**entry, "suffixes": extra.suffixes, "names": extra.names})
    if as_json:
        write_json(terminal, {"languages": rows})
        return
    page = Page.of(terminal)
    cells: list[list[Cell]] = []
    for row in rows:
        style = [] if row["installed"] else ["dim"]
        files = " ".join((*row["suffixes"], *row["names"]))
        texts = (row["name"], row["grammar"], "yes" if row["installed"] else "no", files)
        cells.append([(text, *style) for text in texts])
    page.write(page.table(_LANGUAGE_COLUMNS, cells), terminal)
    if not all(row["installed"] for row in rows):
        from repoagent.errors import install_extra

        terminal.note(f"for the other grammars: {install_extra('languages')}")
    terminal.note("files in other languages are split at blank lines and indentation")
