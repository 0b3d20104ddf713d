"""Shell text, read as bash reads it: `read` gives every simple command in it, and says when it is not certain."""

from __future__ import annotations

from repoagent.agent.approval.shell.parts import Reading, Simple, Word

__all__ = ["Reading", "Simple", "Word", "read"]


def read(text: str) -> Reading:
    """Read `text` as `bash -c` would; see `reader.read`. The parsers are imported with the first command."""
    from repoagent.agent.approval.shell.reader import read

    return read(text)
