"""One text, read twice: by a grammar that finds all it can, and by a plain reader that is sure of what it finds.

Only where both see the same words is the reading certain. So a mistake of one of them can't hide a command.
"""

from __future__ import annotations

from functools import lru_cache

from repoagent.agent.approval.shell.parts import Raw, Reading, Simple, Span, simple
from repoagent.agent.approval.shell.scan import Unsure
from repoagent.agent.approval.shell.strict import read_strictly
from repoagent.agent.approval.shell.tree import read_tree
from repoagent.agent.approval.shell.wrappers import inner

LARGEST = 16 * 1024  # bytes of a text that is read: the grammar takes a second for the worst of that length


@lru_cache(maxsize=64)
def read(text: str) -> Reading:
    """Read `text` as `bash -c` would. Raises nothing, whatever it is; what is in doubt the reading says.

    What another command runs is read too: that of `sudo`, `env`, `timeout`, `xargs`, `find -exec`, `bash -c`.
    """
    return _read(text, 0)


def _read(text: str, depth: int) -> Reading:
    data = text.encode("utf-8", "surrogateescape" if text.isprintable() else "surrogatepass")
    if len(data) > LARGEST:
        return Reading(text, (), "it is too long")
    seen, doubt = read_tree(data)
    try:
        sure = read_strictly(data)
    except Unsure as unsure:
        doubt = str(unsure)
    else:
        if not doubt and _words(sure, data) != _words(seen, data):
            doubt = "it can be read in two ways"
        if not doubt:
            seen = sure
    commands: list[Simple] = []
    for raw in seen:
        command = simple(raw, data)
        doubt = doubt or _trouble(command)
        found, unclear = _unwrapped(command, depth)
        commands += found
        doubt = doubt or unclear
    return Reading(text, tuple(commands), doubt)


def _words(found: list[Raw], data: bytes) -> tuple[list[tuple[Span, ...]], list[Span]]:
    """What two readings of the same text must agree on; a test, `[ ... ]`, is one word to the grammar."""
    commands = []
    for raw in found:
        words = raw.words
        if len(words) > 1 and data[slice(*words[0])] == b"[":
            words = ((words[0][0], words[-1][1]),)
        if words:
            commands.append(words)
    targets = [span for raw in found for operator, span in raw.redirections]
    return sorted(commands), sorted(targets)


def _trouble(command: Simple) -> str:
    if command.words and not command.words[0].literal:
        return f"which program {command.words[0].raw} is can't be told"
    if any("[" in name for name, _ in command.assignments):
        return "the place in an array can hold a command"
    if not command.name.isascii():
        return f"the name of the program {command.name} is not plain ASCII"
    return ""


def _unwrapped(command: Simple, depth: int) -> tuple[list[Simple], str]:
    """A command, and what it runs in turn; and what is in doubt about that."""
    if depth > 5:
        return [command], "commands are nested too deeply"
    wrapped = inner(command)
    if wrapped is None:
        return [command], ""
    found, doubt = [wrapped.outer], wrapped.doubt
    for one in wrapped.commands:
        more, unclear = _unwrapped(one, depth + 1)
        found += more
        doubt = doubt or unclear or _trouble(one)
    for text in wrapped.texts:
        reading = _read(text, depth + 1)
        found += reading.commands
        doubt = doubt or reading.doubt
    return found, doubt
