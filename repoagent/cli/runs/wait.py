"""`repoagent runs wait`: wait for the end of a run."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import opened, run_argument, say
from repoagent.errors import Refused

EXAMPLES = """\b
Examples:
  repoagent runs wait last && make release
  repoagent runs wait last --timeout 600

\b
Exit codes: that of the run (0 done or answered, 1 rejected or unfinished,
5 a limit, 130 stopped or killed, any other as it failed); 2 no such run, 3 it
is on another machine or can't be read, 7 it is still alive after --timeout."""


@click.command("wait", epilog=EXAMPLES)
@run_argument
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait at most this many seconds."
)
@json_option
@pass_session
def command(session: Session, /, *, run: str, timeout: float | None, as_json: bool) -> int:
    """Wait until RUN is at its end, and exit as it did."""
    from repoagent.cli.runs.table import how
    from repoagent.work.home import wait

    here = opened(session)
    found = wait(here.find(run), timeout)
    if found.state == "elsewhere":
        raise Refused(
            f"{found.name} began on {found.record.host or 'another machine'}: whether it is alive can't be known here"
        )
    said = how(found)
    say(here, [found], f"{found.name}: {found.state}{f', {said}' if said else ''}", as_json=as_json)
    return found.exit_code
