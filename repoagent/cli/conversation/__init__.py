"""`repoagent conversation`: the group of its commands, a module for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from repoagent.cli.program.app import LazyGroup

__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.conversation.list:command", "List the conversations that are kept."),
    "show": ("repoagent.cli.conversation.show:command", "Show what was said."),
    "save": ("repoagent.cli.conversation.save:command", "Keep a copy under a name."),
    "load": ("repoagent.cli.conversation.load:command", "Make a saved one that of a file."),
    "branch": ("repoagent.cli.conversation.branch:command", "Begin a new one with the turns of another."),
    "summarize": ("repoagent.cli.conversation.summarize:command", "Say what was said, with a model."),
    "edit": ("repoagent.cli.conversation.edit:command", "Have a model, or your editor, rewrite one."),
    "undo": ("repoagent.cli.conversation.undo:undo", "Take the last change of one back."),
    "redo": ("repoagent.cli.conversation.undo:redo", "Make a change again that was taken back."),
    "delete": ("repoagent.cli.conversation.delete:command", "Put one away; undo brings it back."),
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
