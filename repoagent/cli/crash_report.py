"""The report file of an internal error: the details needed to fix it, without secrets."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from repoagent import __version__
from repoagent.display_text import redact
from repoagent.errors import RepoagentError
from repoagent.llm.registry import SDKS

LIBRARIES = (*SDKS, "click", "rich", "tree-sitter", "unidiff")


def write_report(error: BaseException, arguments: Sequence[str]) -> str:
    """Write the report of `error` to a new private file in the git directory or the temporary folder; return a sentence
    with its path, or the whole report if no file can be written."""
    versions = []
    for name in LIBRARIES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} missing")
    lines = [
        f"repoagent {__version__}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}",
        f"libraries: {', '.join(versions)}",
        f"git: {_git('--version') or 'not found'}",
        f"command line: {' '.join(map(repr, arguments))}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    text = redact("\n".join(lines), os.environ)
    first = redact("".join(traceback.format_exception_only(error)).strip(), os.environ).split("\n")[0]
    git_dir = _git("rev-parse", "--absolute-git-dir")
    for folder in (Path(git_dir, "repoagent", "reports") if git_dir else None, None):
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(".txt", f"report-{time.strftime('%Y%m%d-%H%M%S')}-", folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
            return f"internal error ({first}); see the report in {path}"
        except OSError:  # a full or read-only disk: try the next folder, then the screen
            continue
    return f"internal error; could not write a report:\n{text}"


def _git(*arguments: str) -> str:
    """The output of git, "" without git or a repository."""
    from repoagent.git.process import git

    try:
        return os.fsdecode(git(Path.cwd(), *arguments).removesuffix(b"\n"))
    except (RepoagentError, OSError):
        return ""
