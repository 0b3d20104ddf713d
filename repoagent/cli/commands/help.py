"""`repoagent help`: the help of a command, the exit codes, or a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import click

from repoagent.cli.session import Session, pass_session
from repoagent.errors import Exit, UsageError

EXIT_CODES = {
    Exit.DONE: "success",
    Exit.NOTHING: "nothing was done: nothing to change, or you declined",
    Exit.USAGE: "usage error, such as an unknown option or a missing file",
    Exit.REFUSED: "refused: the edit does not apply, or changes something it may not",
    Exit.NO_MODEL: "no model is available, or the model's output is unusable",
    Exit.LIMIT: "a limit was reached: cost, tokens, turns or time",
    Exit.CHECK_FAILED: "a check or a hook failed; your files were restored",
    Exit.BUSY: "another process holds the lock",
    Exit.INTERNAL: "an internal error in repoagent; the message names the report file",
    Exit.INTERRUPTED: "interrupted by ^C or a signal",
}
NOTES = """\
`review` exits with 1, and `hook run` with 6, if a finding reaches the --fail-on
level. Commands that search (`outline`, `uses`, `recall`, `activity`) exit with
1 if they find nothing. `runs wait` exits with the run's exit code.
"""
_PAGE = re.compile(r"docs/([\w-]+)(?:\.md)?")


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@pass_session
@click.pass_context
def command(ctx: click.Context, session: Session, words: tuple[str, ...]) -> None:
    """Show help for COMMAND: `repoagent help edit`, `repoagent help memory show`.

    Without a COMMAND, list all commands. `repoagent help exit-codes` lists the exit codes, and
    `repoagent help docs/models.md` prints that page of the documentation.
    """
    if words and (page := _PAGE.fullmatch(words[0])):
        session.terminal().result(read_page(page[1]))
        return
    if words == ("exit-codes",):
        click.echo(exit_codes())
        return
    context = ctx.find_root()
    for word in words:
        at, name, parent = context.command, word, context
        if isinstance(at, click.Group):
            subcommand = at.resolve_command(context, [word])[1]
        elif subcommand := getattr(at, "verbs", {}).get(word):
            name, parent = f"{context.info_name} {word}", context.parent or context
        if subcommand is None:
            raise click.UsageError(f"'{context.command_path}' has no command '{word}'", context)
        context = click.Context(subcommand, info_name=name, parent=parent, **subcommand.context_settings)
    click.echo(context.get_help())


def read_page(name: str) -> str:
    """The text of docs/NAME.md. Raises UsageError for an unknown page."""
    package = Path(__file__).parents[2]
    folder = next(
        candidate for candidate in (package / "docs", package.parent / "docs") if candidate.is_dir()
    )
    try:
        return (folder / f"{name}.md").read_text("utf-8")
    except FileNotFoundError:
        names = ", ".join(sorted(page.stem for page in folder.glob("*.md")))
        raise UsageError(f"no such page: docs/{name}.md; the pages are {names}") from None


def exit_codes() -> str:
    """The help page for the exit codes."""
    formatter = click.HelpFormatter(width=80)
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()])
    return f"{formatter.getvalue()}\n{NOTES}".rstrip("\n")
