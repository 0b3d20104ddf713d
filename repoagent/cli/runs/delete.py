"""`repoagent runs delete`: remove a past run."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import opened, run_argument, say
from repoagent.cli.screen.clean import one_line
from repoagent.errors import Busy, NothingDone, UsageError

EXAMPLES = """\b
Examples:
  repoagent runs delete 3fa9c1
  repoagent runs delete 3fa9c1 --yes
  repoagent runs delete --undo run-20261122-171500-3fa9c1

Its folder is removed for good, with its plan and the output of its commands.
The conversation is put away, and --undo with the whole name brings it back; one
that you gave a name yourself stays. What the run has committed stays. A linked
work tree that was made for it goes when all in it is committed, and its branch
when its commits are on others, too."""


@click.command("delete", epilog=EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", "back", is_flag=True, help="Restore the conversation of a deleted run.")
@json_option
@pass_session
def command(session: Session, /, *, run: str, yes: bool, back: bool, as_json: bool) -> None:
    """Remove the past run RUN. One that is alive is not touched."""
    from repoagent.work.ground.place import clear_away
    from repoagent.work.home import bring_back, delete, find, goes_on
    from repoagent.work.home.record import first_line

    here = opened(session)
    if back:
        home = bring_back(here.layout, here.worktree, run, warn=here.terminal.warn)
        found = find(here.layout, home.name, warn=here.terminal.warn)
        more = f"`{goes_on(home.name, found.record.kind)}` goes on with it"
        say(here, [found], f"the conversation of {home.name} is back; {more}", as_json=as_json)
        return
    found = here.find(run)
    if found.alive:
        raise Busy(f"{found.name} is alive: `repoagent runs stop {found.short}` first, then delete it")
    if not yes:
        if not here.terminal.can_ask:
            raise UsageError(f"say --yes to delete {found.name}")
        about = f": {first_line(found.record.prompt, 40)}" if found.record.prompt else ""
        question = one_line(f"Delete {found.name} ({found.state}{about})")
        if here.terminal.ask(question, {"y": "delete it", "n": "leave it"}) == "n":
            raise NothingDone(f"{found.name} stays")
    branch = clear_away(here.worktree, found.name, found.record.worktree, found.record.branch)
    put_away = delete(found)
    more = f"; {branch}" if branch else ""
    if put_away:
        more += f"; `repoagent runs delete --undo {found.name}` brings its conversation back"
    say(
        here, [], f"deleted {found.name}{more}", as_json=as_json, deleted=found.name, conversation_put_away=put_away
    )  # fmt: skip
