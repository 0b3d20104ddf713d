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
    "list": ("repoagent.cli.runs.list_:command", "List runs, newest first."),
    "show": ("repoagent.cli.runs.show:command", "Show the progress, plan and last words of a run."),
    "message": ("repoagent.cli.runs.message:command", "Send a message to a run while it works."),
    "pause": ("repoagent.cli.runs.pause:pause", "Pause a run before its next model call."),
    "resume": ("repoagent.cli.runs.pause:resume", "Continue a paused run."),
    "stop": ("repoagent.cli.runs.stop:command", "Stop a run before its next model call, or now."),
    "wait": ("repoagent.cli.runs.wait:command", "Wait for the end of a run, and exit with its code."),
    "diff": ("repoagent.cli.runs.restore:diff", "Show the uncommitted changes of a run."),
    "restore": ("repoagent.cli.runs.restore:command", "Undo the uncommitted changes of a run."),
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
