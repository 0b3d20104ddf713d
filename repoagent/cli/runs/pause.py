"""`repoagent runs pause` and `runs resume`: have a run stand still, and go on."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import and_below, opened, run_argument, say

EXAMPLES = """\b
Examples:
  repoagent runs pause last
  repoagent runs message last "only the parser, please"
  repoagent runs resume last

It stands still before its next call of the model, and so do the runs that it
has delegated; what it is at is finished first. A message does not end a pause.
The same without the program: a file named pause in the folder of the run."""


@click.command("pause", epilog=EXAMPLES)
@run_argument
@json_option
@pass_session
def pause(session: Session, /, *, run: str, as_json: bool) -> None:
    """Have RUN stand still before its next call."""
    from repoagent.work.home import pause as ask

    here = opened(session)
    found = here.find(run)
    asked = ask(found)
    more = f"to pause; `repoagent runs resume {found.short}` ends that"
    say(here, asked, f"asked {found.name}{and_below(asked)} {more}", as_json=as_json)


@click.command("resume", epilog=EXAMPLES)
@run_argument
@json_option
@pass_session
def resume(session: Session, /, *, run: str, as_json: bool) -> None:
    """End the pause of RUN. One that is not alive goes on with `repoagent run --resume RUN`."""
    from repoagent.work.home import resume as go_on

    here = opened(session)
    found = here.find(run)
    told = go_on(found)
    say(here, told, f"{found.name}{and_below(told)} go{'es' * (len(told) == 1)} on", as_json=as_json)
