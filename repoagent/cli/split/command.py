"""`repoagent split`: a file as segments that can be read and edited one by one, and back again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.split.join import join_options, join_segments, refuse_without_join
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.split.artifact import Other, Text, Ways

EXAMPLES = """\b
Examples:
  repoagent split lib/parser.c       into .repoagent/splits/lib-parser.c
  repoagent split notes.md -o parts --natural  a segment for each section
  repoagent split --refresh parts    the source was edited meanwhile
  repoagent split --join parts       your edits become a commit
  curl -s URL | repoagent split - --language html -o page
  repoagent split data.json --json | jq '.segments[].symbols[].name'

The segments, joined in the order of index.json, are the file byte for byte.
They are cut where its language has a seam: between functions, sections, keys;
a comment stays with what it describes. Only what is larger than a segment by
itself is opened.

A segment file that you have edited is never overwritten or removed: splitting
the same file again is refused then, and --refresh leaves it as it is and says
whether it has to be merged."""


@click.command(epilog=EXAMPLES)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-o", "--output", metavar="DIR", help="Write the segments to folder DIR.")
@click.option(
    "--target-bytes", "target", type=int, metavar="N",
    help="The most that a segment may have.  [default: 16384]",
)  # fmt: skip
@click.option("--natural", is_flag=True, help="Make a segment of each outermost unit, however small.")
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not tell.")
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
    **joining: Any,
) -> Exit | None:
    """Split a file at natural boundaries into a folder of segments.

    FILE "-" is standard input. Each segment is a file; `index.json` says where it comes from
    and what is in it, `base` is the text that was split. The folder is a new one in .repoagent/splits unless -o says
    where.
    """
    given = SimpleNamespace(**joining, as_json=as_json)
    if given.join is not None:
        if file is not None or (output, target, language, index) != (None,) * 4 or natural or list_languages:
            raise UsageError("--join INDEX stands alone: it knows the file, and writes where that is")
        return join_segments(session, given.join, given)
    refuse_without_join(given)
    terminal = session.terminal()
    if list_languages:
        from repoagent.cli.split import languages as split_languages

        split_languages.show(terminal, as_json=as_json)
        return None
    if index is not None:
        if output is not None:
            raise UsageError("--refresh writes where the split is: leave -o out")
        from repoagent.split.artifact import Other

        _refresh(terminal, index, file, Other(target, natural or None, language), as_json=as_json)
        return None
    if not file:
        raise UsageError("name the file to split, or - for standard input (see 'repoagent split --help')")
    from repoagent.split.artifact import Ways
    from repoagent.split.segment import TARGET_BYTES

    ways = Ways(TARGET_BYTES if target is None else target, natural, language)
    _split(terminal, file, ways, output, as_json=as_json)
    return None


def _split(terminal: Terminal, file: str, ways: Ways, output: str | None, *, as_json: bool) -> None:
    from pathlib import Path

    from repoagent.cli.split import as_json as split_json
    from repoagent.cli.split import table as split_table
    from repoagent.split.artifact import create, default_folder, index_of
    from repoagent.split.artifact.making import check_text, check_ways

    cwd = Path.cwd()
    check_ways(ways)
    text = _text(file, cwd)
    check_text(text, ways)
    nowhere = output is None and as_json and (text.worktree is None or not text.path)
    folder = Path() if nowhere else default_folder(text) if output is None else cwd / output
    with terminal.working(f"splitting {text.path or 'standard input'}"):
        if output is None and not nowhere:
            _prepare(text)
        index = index_of(text, ways, folder) if nowhere else create(text, ways, folder)
    if as_json:
        terminal.styled(split_json.render(index, written=not nowhere))
    else:
        terminal.styled(split_table.render(index, text.data, terminal, cwd))


def _refresh(terminal: Terminal, given: str, file: str | None, other: Other, *, as_json: bool) -> None:
    from pathlib import Path

    from repoagent.cli.split import as_json as split_json
    from repoagent.cli.split import table as split_table
    from repoagent.split.artifact import base_bytes, refresh

    cwd = Path.cwd()
    text = None if file is None else _text(file, cwd)
    with terminal.working(f"refreshing {given}"):
        done = refresh(cwd / given, cwd, text=text, other=other)
    if as_json:
        terminal.styled(split_json.render(done.index, done))
    else:
        terminal.styled(split_table.render(done.index, base_bytes(done.index), terminal, cwd, done))


def _text(file: str, cwd: Path) -> Text:
    from repoagent.split.artifact import Text, find_text
    from repoagent.split.artifact.finding import find_worktree

    if file != "-":
        return find_text(file, cwd)
    import sys

    from repoagent.errors import Refused
    from repoagent.repo.source import LARGEST

    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Refused(f"standard input has more than {LARGEST:,} bytes, and repoagent splits no more")
    try:
        return Text("", data, find_worktree(cwd))
    except UsageError:  # a bare repository, or one that git refuses: the text has no place in it anyway
        return Text("", data)


def _prepare(text: Text) -> None:
    """Make `.repoagent`, which git does not see, and the folder of all splits in it."""
    from repoagent.repo.worktree import layout
    from repoagent.store import ensure
    from repoagent.store.folders import folder

    if text.worktree is not None:
        place = layout(text.worktree)
        ensure(place)
        with folder(place.splits, create=True):
            pass
