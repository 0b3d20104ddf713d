"""The files of the work tree that no model is to see, as the approval of commands has to know them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from repoagent.agent.approval.withheld import Known
from repoagent.edit.verify.scope import holds_secrets
from repoagent.repo import git


def withheld_files(top: Path, why_not: Callable[[str], str | None]) -> dict[str, Known]:
    """The paths below `top` of which `why_not` gives a reason, and what git knows of each. Two calls of git, or three
    where there are any. Of a folder that git ignores as a whole, what is in it is not looked at."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:  # at once: a command waits for them
        ignored = pool.submit(_listed, top, "--others", "--ignored", "--exclude-standard", "--directory")
        named = _listed(top, "--cached", "--others", "--exclude-standard") + ignored.result()
    found = [path for path in dict.fromkeys(named) if not path.endswith("/") and why_not(path) is not None]
    tracked = set(_listed(top, "--cached", "--", *found)) if found else set()
    return {path: _known(path) if path in tracked else "" for path in found}


def _known(path: str) -> Known:
    return "tracked" if holds_secrets(path) else "excluded"


def _listed(top: Path, *options: str) -> list[str]:
    listed = git(top, "ls-files", "-z", *options)
    return [path for path in os.fsdecode(listed).split("\0") if path]
