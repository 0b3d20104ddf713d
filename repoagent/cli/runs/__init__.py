"""`repoagent runs`: the group of its commands, a module for each. Without a command it lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import click

from repoagent.cli.program.app import LazyGroup
from repoagent.cli.runs.common import STATES, list_options

__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.runs.list_:command", "List runs, those that began last first."),
    "show": ("repoagent.cli.runs.show:command", "Show how far a run is, its plan and its last words."),
    "message": ("repoagent.cli.runs.message:command", "Tell a run something while it works."),
    "pause": ("repoagent.cli.runs.pause:pause", "Have a run stand still before its next call."),
    "resume": ("repoagent.cli.runs.pause:resume", "End the pause of a run."),
    "stop": ("repoagent.cli.runs.stop:command", "Have a run stop before its next call, or now."),
    "wait": ("repoagent.cli.runs.wait:command", "Wait for the end of a run, and exit as it does."),
    "diff": ("repoagent.cli.runs.restore:diff", "Show what a run has changed and not committed."),
    "restore": ("repoagent.cli.runs.restore:command", "Take back what a run has changed and not committed."),
    "delete": ("repoagent.cli.runs.delete:command", "Remove a past run."),
}

EXAMPLES = f"""\b
Examples:
  repoagent runs
  repoagent runs show last
  repoagent runs message last "leave the tests as they are"
  repoagent runs stop 3fa9c1

A RUN is named by its name, by the last part of a name that was not given by
you, by the beginning of one of these, or as `last`: the newest that no other
run delegated.

{STATES}"""


class RunsGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(
    cls=RunsGroup, epilog=EXAMPLES, subcommand_metavar="[COMMAND] [ARGS]...", invoke_without_command=True
)
@list_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int | None:
    """Show runs of tasks, live and past, and steer those that are alive.

    Without a command, list them.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from repoagent.cli.runs.list_ import command as listing

    code: int = ctx.invoke(listing, **options)
    return code
