"""`repoagent runs stop`: have a run stop."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import and_below, opened, run_argument, say
from repoagent.errors import Exit

_PATIENCE = 10.0  # seconds for a process to take back what is half done
EXAMPLES = """\b
Examples:
  repoagent runs stop last
  repoagent runs stop last --now

It stops before its next call of the model, and so do the runs that it has
delegated. With --now its process is told to end (SIGTERM), as by ^C: what is
half done is taken back. Nothing is lost in either way; `repoagent run --resume`
goes on. The same without the program: a file named stop in its folder."""


@click.command("stop", epilog=EXAMPLES)
@run_argument
@click.option("--now", is_flag=True, help="End its process at once.")
@json_option
@pass_session
def command(session: Session, /, *, run: str, now: bool, as_json: bool) -> int:
    """Have RUN stop before its next call."""
    from repoagent.work.home import end_now, stop, wait
    from repoagent.work.home.steer import StillAlive

    here = opened(session)
    found = here.find(run)
    asked = stop(found)
    if not now:
        more = "; it does so before its next call, --now ends it at once"
        say(here, asked, f"asked {found.name}{and_below(asked)} to stop{more}", as_json=as_json)
        return Exit.DONE
    ended = end_now(found)
    try:
        state = wait(found, _PATIENCE).state
    except StillAlive:
        state = "not at its end yet"
    if ended:
        sentence = f"ended the process of {found.name}{and_below(asked)}: {state}"
    elif state == "elsewhere":
        sentence = (
            f"{found.name} is on {found.record.host or 'another machine'}: asked to stop, not ended from here"
        )
    else:
        sentence = f"asked {found.name} to stop: {state}"
    say(here, asked, sentence, as_json=as_json, ended=[each.name for each in ended])
    return Exit.BUSY if state == "not at its end yet" else Exit.DONE
