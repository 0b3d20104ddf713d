"""`repoagent memory`: the group of its commands, a module for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from repoagent.cli.program.app import LazyGroup

__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.memory.list_:command", "List what is remembered, file by file."),
    "show": ("repoagent.cli.memory.show:command", "Show what is known about a file."),
    "edit": ("repoagent.cli.memory.edit:command", "Change the notes or the conversation in an editor."),
    "note": ("repoagent.cli.memory.note:command", "Add a note about a file."),
    "clear": ("repoagent.cli.memory.clear:command", "Clear what is known about files, or restore it."),
    "compact": ("repoagent.cli.memory.compact:command", "Archive old exchanges, and keep a line of each."),
    "relink": ("repoagent.cli.memory.relink:command", "Tie a memory to another file, or back to its own."),
    "export": ("repoagent.cli.memory.export:command", "Export memories as one archive, to share them."),
    "import": ("repoagent.cli.memory.import_:command", "Import the memories of an archive."),
    "gc": ("repoagent.cli.memory.gc:command", "Archive memories whose file is gone."),
    "status": ("repoagent.cli.memory.status:command", "Show how much is remembered, and any problems."),
}

EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory show src/app.py
  repoagent memory note src/app.py "the order of the results is relied on"

A FILE is a path, also of a file that is gone, or the name or id of a memory
as `memory list --json` and `memory show` say it."""


class MemoryGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(cls=MemoryGroup, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show, correct and clear what is remembered of files: notes, conversations, edits."""
