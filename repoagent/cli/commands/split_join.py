"""`repoagent split --join`: commit edited segments as a change of their source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.options import commit_options, flag, is_given, parse_check
from repoagent.errors import Exit, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.session import Session
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.join import JoinedSegment, JoinOutcome
    from repoagent.edit.request import EditRequest
    from repoagent.split.join import SegmentConflict

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--join", metavar="INDEX", help="Join the edited segments into the source, in one commit."),
    click.option("-n", "--dry-run", is_flag=True, help="With --join: show the diff; write nothing."),
    click.option("--no-commit", is_flag=True, help="With --join: write the file; do not commit it."),
    click.option("--include-dirty", is_flag=True, help="With --join: commit your other changes in it too."),
    click.option(
        "--no-parse-check", is_flag=True, help="With --join: accept a result that does not parse."
    ),
    click.option(
        "--force", is_flag=True,
        help="With --join: on a conflict, show the changes of the source, ask, and discard them.",
    ),
    click.option(
        "-m", "--message", "words", multiple=True, metavar="TEXT",
        help="With --join: the commit message. Repeatable.",
    ),
)  # fmt: skip
ONLY = ("dry_run", "no_commit", "include_dirty", "no_parse_check", "force", "words")
GO_ON = {"y": "discard these changes of the source and use the segments", "q": "stop and change nothing"}
HOW = {
    "applied": "",
    "merged": "merged with a change of the source",
    "already": "already in the source",
    "unchanged": "unchanged",
    "conflict": "replaces a change of the source",
}
# options that need a repository
OF_A_COMMIT = ("include_dirty", "words")


def join_options(function: F) -> F:
    """The options of `--join`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def refuse_without_join(options: SimpleNamespace) -> None:
    """Raise UsageError for an option that only `--join` has."""
    for option in ONLY:
        if is_given(options, option):
            raise UsageError(f"{flag(option)} needs --join INDEX")


def join_segments(session: Session, index: str, options: SimpleNamespace) -> Exit:
    """Join the split at `index` by `options` (those of `join_options`, and `as_json`), and show the outcome. Raises
    what joining raises."""
    from repoagent.cli.ui.echo import hush
    from repoagent.cli.ui.progress import Working
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.join import join
    from repoagent.git.worktree import layout
    from repoagent.split.folder_index import read_index
    from repoagent.split.source import worktree_of

    if options.dry_run and options.no_commit:
        raise UsageError("--dry-run and --no-commit cannot be combined")
    if options.words and not "".join(options.words).strip():
        raise UsageError("the commit message is empty")
    cwd = Path.cwd()
    found = read_index(Path(index))
    outside = found.source.path.startswith("/")
    worktree = None if outside else worktree_of(found, cwd)
    for option in OF_A_COMMIT if outside else ():
        if is_given(options, option):
            raise UsageError(f"{flag(option)} needs a git repository, and {found.source.path} is outside one")
    settings, terminal = session.open(
        layout(worktree) if worktree is not None else None, parse_check(options)
    )
    if worktree is not None:
        from repoagent.cli.app import settle

        settle(worktree, terminal)
    hush(terminal)
    working = Working(terminal, "")
    commits = worktree is not None and not options.no_commit
    ui = TerminalInterface(terminal, working, yes=True, commits=commits, model=False)

    def discards(path: str, clashes: Sequence[SegmentConflict], lost: str) -> bool:
        working.quiet()
        return _discards(terminal, path, clashes, lost, asks=not options.dry_run)

    try:
        outcome = join(
            Path(index),
            cwd,
            _request(options, settings),
            settings,
            ui,
            discards=discards if options.force else None,
        )
    finally:
        working.quiet()
    if options.as_json:
        _print_json(outcome, terminal)
    else:
        _show(outcome, terminal, ui.said)
    return Exit.DONE


def _request(options: SimpleNamespace, settings: Settings) -> EditRequest:
    from repoagent.edit.request import EditRequest
    from repoagent.tasks.check import check_of

    made = SimpleNamespace(
        **{
            **dict.fromkeys(("no_verify", "edit_message", "signoff"), False),
            **dict.fromkeys(("branch", "sign", "fixup")),
            "no_commit": options.no_commit,
            "include_dirty": options.include_dirty,
        }
    )
    words = "\n\n".join(options.words).strip("\n")
    return EditRequest(
        instruction=f"{words}\n" if words else "",
        targets=(),
        parse_check=settings.switch("edit.parse_check"),
        check=check_of(settings),
        dry_run=options.dry_run,
        sensitive=settings.texts("edit.sensitive"),
        commit=commit_options(made),
    )


def _discards(
    terminal: Terminal, path: str, clashes: Sequence[SegmentConflict], lost: str, *, asks: bool
) -> bool:
    """Show what --force discards, and ask. Raises Refused without a terminal."""
    from repoagent.split.join import describe_conflicts

    terminal.warn(f"--force discards these changes of {path}, for {describe_conflicts(path, clashes)}:")
    terminal.diff(lost, aside=True)
    if not asks:
        return True
    if not terminal.can_ask:
        files = ", ".join(dict.fromkeys(file for clash in clashes for file in clash.files))
        raise Refused(
            f"--force would discard changes of {path} and cannot ask without a terminal; nothing was written. Run it "
            f"on a terminal, or move {files} away, run --refresh, and make your change in the new segment"
        )
    return terminal.ask("Discard them", GO_ON) == "y"


def _show(outcome: JoinOutcome, terminal: Terminal, said: set[str]) -> None:
    from repoagent.cli.ui.outcome import show_commit
    from repoagent.split.folder_index import display_path

    width = max(len(segment.file) for segment in outcome.segments)
    for segment in outcome.segments:
        terminal.note(_line(segment, width))
    show_commit(outcome.result, terminal, f"{outcome.seconds:.1f} s", said)
    if outcome.diff is not None:
        terminal.note(f"diff: {display_path(outcome.diff, Path.cwd())}")


def _line(segment: JoinedSegment, width: int) -> str:
    how = HOW[segment.how]
    return f"{segment.file:<{width}}  +{segment.added} -{segment.removed}" + (f"  {how}" if how else "")


def _print_json(outcome: JoinOutcome, terminal: Terminal) -> None:
    from repoagent.cli.ui.outcome import VERSION, commit_object, show_json

    content = {
        "version": VERSION,
        "outcome": outcome.kind,
        "edit": outcome.edit_id,
        **commit_object(outcome.result),
        "source": outcome.source,
        "index": str(outcome.index),
        "segments": [
            {
                "file": segment.file,
                "added": segment.added,
                "removed": segment.removed,
                "how": segment.how,
                "notes": list(segment.notes),
            }
            for segment in outcome.segments
        ],
        "ignored": list(outcome.other_files),
        "join_diff": None if outcome.diff is None else str(outcome.diff),
        "refreshed": outcome.fresh,
        "seconds": round(outcome.seconds, 3),
    }
    show_json(content, outcome.result, terminal)
