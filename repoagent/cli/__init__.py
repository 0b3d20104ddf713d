"""The command line: a module for each command; it parses arguments, calls one function, shows the answer."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

from repoagent.errors import Exit

__all__ = ["main"]

# New objects; what is imported is no garbage, and looking for some takes a tenth of the start.
_COLLECT_AFTER = 50_000


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `repoagent` (or `git repoagent`: the same program) and leave with its exit code.

    `argv` is the program's name and its arguments, `sys.argv` when it is left out.
    """
    from repoagent.cli import signals

    gc.set_threshold(_COLLECT_AFTER)
    try:
        signals.listen()
        from repoagent.cli.app import cli
        from repoagent.cli.exit import run

        program, *arguments = sys.argv if argv is None else argv
        code = run(cli, program, arguments)
    except signals.Ended as ended:
        signals.die(ended.number)
        code = int(Exit.INTERRUPTED)
    except KeyboardInterrupt:  # so early, or so often, that `run` could not say it
        code = int(Exit.INTERRUPTED)
    gc.freeze()  # or Python goes through all that there is, twice, before it ends
    sys.exit(code)
