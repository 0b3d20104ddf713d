"""The action `write`: a file beside the repository, for what is tried out and thrown away."""

from __future__ import annotations

import re
from pathlib import Path

from repoagent.agent import Action, Observation, Tool
from repoagent.errors import RepoagentError
from repoagent.store import write_whole

LONGEST = 1 << 20  # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


def write_tool(folder: Path) -> Tool:
    """The tool `write`. `folder` is what commands have as $TMPDIR."""

    def perform(action: Action) -> Observation:
        name = action.args.get("path", "").strip()
        if not _NAME.fullmatch(name):
            return Observation(
                "write",
                f"path={name!r}: it is the plain name of a file outside of the repository; what is in the repository "
                "is changed with a patch.",
                ok=False,
            )
        if len(action.body) > LONGEST:
            return Observation("write", f"that is too long: at most {LONGEST:,} characters", ok=False)
        try:
            write_whole(folder / name, action.body.encode("utf-8", "replace"))
        except RepoagentError as error:
            return Observation("write", str(error), ok=False)
        return Observation("write", f"Written: commands have it as $TMPDIR/{name}.")

    text = '<write path="NAME">TEXT</write> writes $TMPDIR/NAME, a scratch file that is never committed.'
    return Tool("write", text, perform)
