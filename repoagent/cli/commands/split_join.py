"""`repoagent split --join`: commit edited segments as a change of their source."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from repoagent.cli import options as shared
from repoagent.errors import Exit, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.session import Session
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.join import JoinOutcome
    from repoagent.split.join import SegmentConflict

join_options = shared.together(
    click.option("--join", metavar="INDEX", help="Join the edited segments into the source, in one commit."),
    click.option("-n", "--dry-run", is_flag=True, help="With --join: show the diff; write nothing."),
    click.option("--no-commit", is_flag=True, help="With --join: write the file; do not commit it."),
    click.option("--include-dirty", is_flag=True, help="With --join: commit your other changes in it too."),
    click.option("--no-parse-check", is_flag=True, help="With --join: accept a result that does not parse."),
    click.option(
        "--force", is_flag=True,
        help="With --join: on a conflict, show the changes of the source, ask, and discard them.",
    ),
    click.option(
        "-m", "--message", "words", multiple=True, metavar="TEXT",
        help="With --join: the commit message. Repeatable.",
    ),
)  # fmt: skip
CHOICES = {"y": "discard these changes of the source and use the segments", "q": "stop and change nothing"}
HOW = {
    "applied": "",
    "merged": "merged with a change of the source",
    "already": "already in the source",
    "unchanged": "unchanged",
    "conflict": "replaces a change of the source",
}


def join_segments(session: Session, options: SimpleNamespace) -> Exit:
    """Join the split of --join by `options`, and show the outcome. Raises what joining raises."""
    from repoagent.cli.app import settle
    from repoagent.cli.ui.echo import hush
    from repoagent.cli.ui.progress import Working
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.join import join
    from repoagent.git.worktree import layout
    from repoagent.split.folder_index import read_index
    from repoagent.split.source import worktree_of

    shared.refuse_conflicts(options, {"dry_run": ("no_commit",)})
    words = "\n\n".join(options.words)
    if options.words and not words.strip():
        raise UsageError("the commit message is empty")
    cwd, index = Path.cwd(), Path(options.join)
    found = read_index(index)
    outside = found.source.path.startswith("/")
    worktree = None if outside else worktree_of(found, cwd)
    for option in ("include_dirty", "words") if outside else ():
        if shared.is_given(options, option):
            what = f"{shared.flag(option)} needs a git repository"
            raise UsageError(f"{what}, and {found.source.path} is outside one")
    place = None if worktree is None else layout(worktree)
    settings, terminal = session.open(place, shared.parse_check(options))
    if worktree is not None:
        settle(worktree, terminal)
    hush(terminal)
    working = Working(terminal, "")
    commits = worktree is not None and not options.no_commit
    ui = TerminalInterface(terminal, working, yes=True, commits=commits, model=False)
    message = words.strip("\n")
    request = shared.edit_request(options, settings, f"{message}\n" if message else "")

    def discards(path: str, conflicts: Sequence[SegmentConflict], lost: str) -> bool:
        working.quiet()
        return _discards(terminal, path, conflicts, lost, asks=not options.dry_run)

    try:
        outcome = join(index, cwd, request, settings, ui, discards=discards if options.force else None)
    finally:
        working.quiet()
    _show(outcome, terminal, ui.said, as_json=options.as_json)
    return Exit.DONE


def _discards(
    terminal: Terminal, path: str, conflicts: Sequence[SegmentConflict], lost: str, *, asks: bool
) -> bool:
    """Show what --force discards, and ask. Raises Refused without a terminal."""
    from repoagent.split.join import describe_conflicts

    terminal.warn(f"--force discards these changes of {path}, for {describe_conflicts(path, conflicts)}:")
    terminal.diff(lost, aside=True)
    if not asks:
        return True
    if not terminal.can_ask:
        files = ", ".join(dict.fromkeys(file for conflict in conflicts for file in conflict.files))
        raise Refused(
            f"--force would discard changes of {path} and cannot ask without a terminal; nothing was written. Run it "
            f"on a terminal, or move {files} away, run --refresh, and make your change in the new segment"
        )
    return terminal.ask("Discard them", CHOICES) == "y"


def _show(outcome: JoinOutcome, terminal: Terminal, said: set[str], *, as_json: bool) -> None:
    from repoagent.cli.ui import outcome as output
    from repoagent.split.folder_index import display_path

    if as_json:
        content = {
            "version": output.VERSION,
            "outcome": outcome.kind,
            "edit": outcome.edit_id,
            **output.commit_object(outcome.result),
            "source": outcome.source,
            "index": str(outcome.index),
            "segments": [dict(vars(segment)) for segment in outcome.segments],
            "ignored": list(outcome.other_files),
            "join_diff": None if outcome.diff is None else str(outcome.diff),
            "refreshed": outcome.fresh,
            "seconds": round(outcome.seconds, 3),
        }
        output.show_json(content, outcome.result, terminal)
        return
    width = max(len(segment.file) for segment in outcome.segments)
    for segment in outcome.segments:
        counts = f"+{segment.added} -{segment.removed}"
        terminal.note(f"{segment.file:<{width}}  {counts}  {HOW[segment.how]}".rstrip())
    output.show_commit(outcome.result, terminal, f"{outcome.seconds:.1f} s", said)
    if outcome.diff is not None:
        terminal.note(f"diff: {display_path(outcome.diff, Path.cwd())}")
