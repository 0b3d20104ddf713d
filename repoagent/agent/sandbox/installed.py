"""The Python environments that the user works in: where a command finds its programs and their packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.agent.sandbox.launch.paths import within
from repoagent.errors import RepoagentError
from repoagent.store.atomic import read_regular

_LARGEST = 64 * 1024  # bytes of a pyvenv.cfg
_HOME = re.compile(r"^home[ \t]*=[ \t]*(/.*?)[ \t]*$", re.MULTILINE)


def environments(env: Mapping[str, str], writable: Sequence[str], hidden: Sequence[str]) -> Iterator[str]:
    """The folders, without links, of the environments that PATH, VIRTUAL_ENV and CONDA_PREFIX of `env` name, and of the
    interpreters that those are based on.

    What lies in a `writable` folder may be written by anybody: it gives no access to anything, so it is left out. So is
    what is `hidden`, and what holds the home folder.
    """
    named = [
        os.path.dirname(part.rstrip("/"))  # noqa: PTH120
        for part in env.get("PATH", "").split(os.pathsep)
        if part.rstrip("/").endswith("/bin")
    ]
    named += [env.get("VIRTUAL_ENV", ""), env.get("CONDA_PREFIX", "")]
    for path in dict.fromkeys(os.path.realpath(name) for name in named if name.startswith("/")):
        if _is_safe(path, writable, hidden) and (home := _home(path)) is not None:
            yield path
            base = os.path.realpath(os.path.dirname(home))  # noqa: PTH120
            if home and _is_safe(base, writable, hidden) and any(Path(base).glob("lib/python3*/os.py")):
                yield base


def _is_safe(path: str, writable: Sequence[str], hidden: Sequence[str]) -> bool:
    home = os.path.realpath(Path.home())
    return not within(home, path) and not any(within(path, other) for other in (*writable, *hidden))


def _home(path: str) -> str | None:
    """The folder of the base interpreter of an environment, "" where it needs none; None for what is no environment."""
    try:
        data = read_regular(Path(path, "pyvenv.cfg"), most=_LARGEST)
    except RepoagentError:  # a link, or no file that Python has written
        return None
    if data is None:
        return "" if os.path.isdir(f"{path}/conda-meta") else None  # noqa: PTH112
    found = _HOME.search(data.decode("utf-8", "replace"))
    return found[1] if found else ""
