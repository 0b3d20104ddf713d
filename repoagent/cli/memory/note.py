"""`repoagent memory note`: note something about a file."""

from __future__ import annotations

import json
import sys

import click

from repoagent.cli.memory.common import VERSION, complete, count, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import one_line
from repoagent.errors import Exit, UsageError

EXAMPLES = """\b
Examples:
  repoagent memory note src/app.py "the order of the results is relied on"
  repoagent memory note src/app.py - < lessons.md
  repoagent memory note src/copy.py --from src/app.py

From standard input each bullet and each paragraph is a note. Name code in
`backticks`: when it is gone from the file, the note is marked as out of date.
With --from what was learned of another file is noted, as it is there.

1 also when all of it was noted before."""


@click.command("note", epilog=EXAMPLES)
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
def command(session: Session, /, file: str, text: str | None, source: str | None, as_json: bool) -> int:
    """Note something about FILE, for every later edit of it. `-` reads it from standard input.

    The note has your mark, today's date and the version of the file that it is about. It is never rewritten or put
    away. Keys and tokens in it are masked.
    """
    from repoagent.memory import remember
    from repoagent.memory.care.note import copy_notes, take_notes
    from repoagent.memory.overview.find import needed
    from repoagent.repo.worktree import open_at_head

    texts = _texts(text, source)
    here = opened(session)
    other = None
    if source is not None:
        other = needed(here.layout, here.worktree, here.named(source), warn=here.terminal.warn)
    found = here.named(file, rekey=True)
    if other is not None and found.memory is not None and other.folder == found.memory.folder:
        raise UsageError(f"{source} is the same memory: name that of another file")
    memory = found.memory
    if memory is None or (
        found.data is not None and memory.identity.path_in(str(here.worktree.top)) != found.path
    ):
        head = open_at_head(here.cwd)[1]
        memory = remember(
            here.layout, here.worktree, found.path, found.data or b"", commit=head, warn=here.terminal.warn
        )
    noted = (
        take_notes(memory, here.worktree, texts, found.data) if other is None else copy_notes(memory, other)
    )
    if noted.masked:
        here.terminal.warn("the note held what looks like a key or a token: that is masked in what was kept")
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
        here.terminal.note(f"that is noted already: {one_line(noted.notes[0].text)}")
    return Exit.NOTHING


def _texts(text: str | None, source: str | None) -> list[str]:
    """The words of the notes, none where they are to be copied. Raises UsageError."""
    from repoagent.memory.care.note import check_notes, written_notes

    if source is not None:
        if text is not None:
            raise UsageError("--from copies the notes of another file: leave the words out")
        return []
    if text is None:
        raise UsageError('say what to remember, `repoagent memory note FILE "..."`, or --from another file')
    piped = text == "-"
    given = sys.stdin.buffer.read().decode("utf-8", "replace") if piped else text
    texts = written_notes(given) if piped else [given]
    check_notes(texts)
    return texts
