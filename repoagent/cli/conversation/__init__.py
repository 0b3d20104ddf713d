"""`repoagent conversation`: the group of its commands, a module for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from repoagent.cli.program.app import LazyGroup

__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.conversation.list:command", "List the saved conversations."),
    "show": ("repoagent.cli.conversation.show:command", "Show a conversation."),
    "save": ("repoagent.cli.conversation.save:command", "Save a copy under a name."),
    "load": ("repoagent.cli.conversation.load:command", "Load a saved one for a file."),
    "branch": ("repoagent.cli.conversation.branch:command", "Start a new one with the turns of another."),
    "summarize": ("repoagent.cli.conversation.summarize:command", "Summarize one with a model."),
    "edit": ("repoagent.cli.conversation.edit:command", "Rewrite one, with a model or in your editor."),
    "undo": ("repoagent.cli.conversation.undo:undo", "Undo the last change of one."),
    "redo": ("repoagent.cli.conversation.undo:redo", "Redo a change that you undid."),
    "delete": ("repoagent.cli.conversation.delete:command", "Delete one; undo restores it."),
}

EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the talk about names"
  repoagent conversation load parser-2 --into src/parse.py

A conversation is named by its NAME, or as file:PATH: what was said about that
file. Each is a plain file that you may read and change by hand."""


class ConversationGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(cls=ConversationGroup, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Keep, branch, rewrite and put away what was said, by name."""
