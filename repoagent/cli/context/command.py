"""`repoagent context`: the prompt that an edit would send, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

EPILOG = """\b
Examples:
  repoagent context src/app.py
  repoagent context src/app.py "return a default" --full
  repoagent context src/app.py --json | jq '.blocks[] | [.tokens, .name]'
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="FILE... [INSTRUCTION]")
@click.option("--model", metavar="SPEC", help="Show the prompt for this model.")
@click.option("--read", multiple=True, metavar="FILE", help="Show FILE to the model, read-only. Repeatable.")
@click.option("--create", is_flag=True, help="Create files that do not exist.")
@click.option(
    "--conversation", type=click.Choice(["continue", "fresh"]), default="continue", metavar="HOW",
    help="Use earlier exchanges about the files (continue, the default) or not (fresh).",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Print the text of each block.")
@click.option("--count", is_flag=True, help="Send the prompt to the provider to count its tokens.")
@json_option
@pass_session
def command(session: Session, /, arguments: tuple[str, ...], **options: Any) -> Exit:
    """Show the prompt that an edit of FILES would send: its blocks, their tokens, what is cached.

    It needs no model and no key, and sends nothing but with --count. Without an INSTRUCTION a long file is shown as
    it is when nothing says which part matters.
    """
    from dataclasses import replace

    from repoagent.cli.context.prompt import prompt_of, show_table, show_texts
    from repoagent.edit import EditRequest, parse_target, split_arguments
    from repoagent.repo import layout, open_worktree, relative

    cwd = Path.cwd()
    if not arguments:
        raise UsageError('say which file: repoagent context FILE ["INSTRUCTION"]')
    worktree = open_worktree(cwd)
    settings, terminal = session.open(layout(worktree), {"model": options["model"]})
    files, text = split_arguments(arguments, instruction_elsewhere=False, cwd=cwd, create=options["create"])
    if not files:
        raise UsageError('say which file it is about: repoagent context FILE ["INSTRUCTION"]')
    named = [parse_target(file, cwd) for file in files]
    request = EditRequest(
        instruction=(text or "").strip(),
        targets=tuple(replace(target, path=relative(worktree, target.path, cwd)) for target in named),
        read=tuple(relative(worktree, path, cwd) for path in options["read"]),
        create=options["create"],
        scope=settings.text("edit.scope"),
        fresh=options["conversation"] == "fresh",
        dry_run=True,
    )
    with terminal.working("reading the repository"):
        found = prompt_of(worktree, request, settings, count=options["count"])
    if options["as_json"] or options["full"]:
        show_texts(found, terminal, as_json=options["as_json"], count=options["count"])
    else:
        show_table(found, terminal, count=options["count"])
    return Exit.DONE
