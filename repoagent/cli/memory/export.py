"""`repoagent memory export`: write memories into one archive."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import VERSION, amount, complete, count, name, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.archive import Exported

EXAMPLES = """\b
Examples:
  repoagent memory export -o team.tar.gz
  repoagent memory export src docs/guide.md -o team.tar.gz
  repoagent memory export --no-conversations | ssh host 'cat > notes.tar.gz'

The archive holds plain files and a manifest.json: read it with tar. The same
memories make the same bytes, so it can be committed. It has nothing of this
machine and nothing of the files themselves; keys and tokens are masked.
`repoagent memory import` takes it in."""


@click.command("export", epilog=EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete)
@click.option("-o", "--output", metavar="FILE|-", help="Write the archive to FILE; `-` is standard output.")
@click.option("--no-conversations", is_flag=True, help="Export notes and edits only.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    paths: tuple[str, ...],
    output: str | None,
    no_conversations: bool,
    as_json: bool,
) -> int:
    """Write the memories of files, and of those in folders, into one archive; all of them for no PATH."""
    from repoagent.memory.archive import export
    from repoagent.repo.worktree import relative
    from repoagent.store import write_whole

    here = opened(session)
    piped = output in (None, "-")
    if piped and (as_json or (here.terminal.shows and output is None)):
        raise UsageError("say where to write the archive: -o FILE")
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
        here.terminal.result(_json(found, target))
    else:
        _tell(here, found, None if piped else target)
    return Exit.DONE


def _is_path(here: Here, given: str) -> bool:
    """Whether this is a path, and not the name of a memory."""
    from repoagent.memory.archive.form import NAME

    return (
        not NAME.fullmatch(given) or not (here.layout.memory / given).is_dir() or (here.cwd / given).exists()
    )


def _check(target: Path) -> None:
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}: make it, or name another")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise Refused(f"{target} is not a regular file: name another, or `-` for standard output")


def _tell(here: Here, found: Exported, target: Path | None) -> None:
    from repoagent.memory.archive.form import CONVERSATION
    from repoagent.memory.archive.pack import known_edits
    from repoagent.memory.notes.file import entries

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
        here.terminal.warn(f"left out: {count(broken, 'file')} that can't be read or was set aside as broken")
    if lines:
        here.terminal.warn(f"left out: {count(lines, 'line')} of edits that this repoagent does not know")
    if masked:
        here.terminal.note(f"masked: {masked} of what looks like a key or a token")


def _json(found: Exported, target: Path) -> str:
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
