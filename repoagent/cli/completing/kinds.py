"""Which parameter takes what, told by how it is named: a command need not say it again.

The word in capitals in the help (FILE, REV, SPEC ...) decides, or the name of the parameter; TABLE is for the few where
neither tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

from repoagent.cli.completing import values

Find = Callable[[str], Iterable[tuple[str, str]]]

# The word in the help, or the parameter's name, in capitals: what to look among; "file" and "dir" are the shell's own.
WORDS: Mapping[str, Find | str] = {
    "FILE": "file",
    "PATH": "file",
    "INDEX": "file",
    "ARCHIVE": "file",
    "DIR": "dir",
    "FOLDER": "dir",
    "REV": values.revisions,
    "REF": values.revisions,
    "RANGE": values.revisions,
    "COMMIT": values.revisions,
    "SPEC": values.models,
    "MODEL": values.models,
    "RULE": values.rules,
    "LANGUAGE": values.languages,
    "KIND": values.symbol_kinds,
    "KEY": values.keys,
    "EDIT": values.edits,
    "RUN": values.runs,
}
# (command, parameter): where a word of the help means another thing than it does elsewhere
TABLE: Mapping[tuple[str, str], Find | str | None] = {
    ("test", "name"): values.models,
    ("outline", "language"): values.languages,
    ("split", "language"): values.languages,
    ("edit", "sign"): None,
    ("apply", "sign"): None,
}
_WORD = re.compile(r"[A-Z]{2,}")


class Completed(click.types.StringParamType):
    """A parameter whose values are found by `find`; it takes any value."""

    def __init__(self, find: Find | str) -> None:
        self.find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        if isinstance(self.find, str):
            return [CompletionItem(incomplete, type=self.find)]
        return [
            CompletionItem(value, "part" if value.endswith(values.GOES_ON) else "plain", help)
            for value, help in self.find(incomplete)
        ]


def equip(command: click.Command) -> None:
    """Let every parameter of `command`, and of those in it, know its values. What it says itself stays."""
    for param in command.params:
        find = kind_of(param, command.name or "")
        if find is not None:
            param.type = Completed(find)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            equip(inner)


def kind_of(param: click.Parameter, command: str = "") -> Find | str | None:
    """What `param` takes; None where its type knows that (a choice, a number), or nobody does (a message)."""
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return None
    if not isinstance(param.type, (click.types.StringParamType, click.Path)):
        return None
    if (command, param.name) in TABLE:
        return TABLE[command, param.name or ""]
    named = _WORD.findall(param.metavar or "") or [(param.name or "").upper()]
    for word in (*named, (param.name or "").upper().rstrip("S")):
        if word in WORDS:
            return WORDS[word]
    return "file" if isinstance(param.type, click.Path) else None
