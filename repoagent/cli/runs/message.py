"""`repoagent runs message`: tell a run something while it works."""

from __future__ import annotations

import sys

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import opened, run_argument, say
from repoagent.errors import UsageError

EXAMPLES = """\b
Examples:
  repoagent runs message last "leave the tests as they are"
  repoagent runs message last - < notes.md

It is read before the next call of the model, and stands in the conversation as
your words. To a run that is not alive say it with `repoagent run --resume`.
The same without the program: write a file NAME.md into the inbox/ of the run."""


@click.command("message", epilog=EXAMPLES)
@run_argument
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@json_option
@pass_session
def command(session: Session, /, *, run: str, words: tuple[str, ...], as_json: bool) -> None:
    """Tell RUN something: TEXT, or what standard input says for `-`."""
    from repoagent.work.home import message, refreshed
    from repoagent.work.home.requests import is_there

    here = opened(session)
    found = here.find(run)
    if words == ("-",):
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is no UTF-8 text: {error}") from error
    else:
        text = " ".join(words)
    file = message(found, text)
    found = refreshed(found)
    if is_there(found.home.pause):
        more = f"; it is paused, and reads it after `repoagent runs resume {found.short}`"
    elif found.alive:
        more = "; it reads it before its next call"
    else:
        more = f"; it is on {found.record.host or 'another machine'}, and reads it if it is alive"
    say(here, [found], f"told {found.name}{more}", as_json=as_json, file=str(file))
