"""What is said of the findings of a review, as the first word after it: `repoagent review dismiss ID`, `accept ID`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.command import Command
from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PATHSPECS = f"{__name__}.pathspecs"  # where a context keeps what stood behind `--`


class Review(Command):
    """The command, with the pathspecs that stand behind `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What stands behind `--` are pathspecs."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[PATHSPECS] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PATHSPEC...]"]


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from repoagent.cli.completing.values import revisions

    if PATHSPECS in ctx.meta:
        return [CompletionItem(incomplete, type="file")]
    words = [CompletionItem(name, help=verb.short_help) for name, verb in VERBS.items()]
    named = [CompletionItem(name, help=kind) for name, kind in revisions(incomplete)]
    return [word for word in words if word.value.startswith(incomplete)] + named


def _complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The findings of the last review."""
    from click.shell_completion import CompletionItem

    from repoagent.errors import RepoagentError
    from repoagent.repo.worktree import layout
    from repoagent.review.read import open_repository
    from repoagent.review.record import read_last

    try:
        last = read_last(layout(open_repository(Path.cwd())[0]), warn=lambda _: None)
    except RepoagentError:
        return []
    found = last.findings if last is not None else ()
    return [CompletionItem(one.id, help=one.title) for one in found if one.id.startswith(incomplete)]


def _verb(name: str, line: str) -> click.Command:
    @click.command(
        name,
        short_help=line,
        help=f"{line}\n\nID is that of a finding of the last review; its first characters are enough.",
    )
    @click.argument("finding", metavar="ID", shell_complete=_complete_ids)
    @click.option("--reason", default="", metavar="TEXT", help="Record why.")
    @json_option
    @pass_session
    def verb(session: Session, /, *, finding: str, reason: str, as_json: bool) -> None:
        from repoagent.repo.worktree import layout
        from repoagent.review import dismiss
        from repoagent.review.read import open_repository

        worktree, _, _ = open_repository(Path.cwd())
        remember = dismiss.dismiss if name == "dismiss" else dismiss.accept
        found = remember(layout(worktree), finding, reason=reason)
        terminal = session.terminal()
        if as_json:
            import json

            terminal.result(
                json.dumps({"version": 1, "id": found.id, "rule": found.rule, "state": f"{name}ed"}) + "\n"
            )
        else:
            terminal.note(f"{name}ed: {found.title}")

    return verb


VERBS = {
    "dismiss": _verb("dismiss", "Hide a finding from now on: it is wrong, or does not matter."),
    "accept": _verb("accept", "Hide a finding from now on: it is right, and known."),
}
