"""The diff that is shown for an applied answer: unidiff and git must take it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from bench.patch.appliers import write
from bench.patch.model import Case


def wrong_with(case: Case, diff: str, *, git: bool) -> str:
    """What is wrong with the canonical diff, "" if nothing. `git`: ask `git apply --check` too."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    added = sum(line.startswith("+") for line in _body(diff))
    removed = sum(line.startswith("-") for line in _body(diff))
    try:
        parsed = PatchSet(_lines(diff))
    except UnidiffParseError as error:
        return f"unidiff: {error}"
    if (parsed.added, parsed.removed) != (added, removed):
        return f"unidiff sees +{parsed.added} -{parsed.removed} of +{added} -{removed}"
    return _checked(case, diff) if git else ""


def _lines(diff: str) -> list[str]:
    return [line + "\n" for line in diff.split("\n")[:-1]]


def _body(diff: str) -> list[str]:
    """The lines of hunks, told by their counts."""
    body: list[str] = []
    old = new = 0
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            body.append(line)
            old -= line[:1] in (" ", "-", "")
            new -= line[:1] in (" ", "+", "")
        elif match := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            old, new = (int(count) if count else 1 for count in match.groups())
    return body


def _checked(case: Case, diff: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for path, (data, mode) in case.files.items():
            write(Path(folder), path, data, mode)
        done = subprocess.run(
            ["git", "-c", "core.symlinks=true", "apply", "--check", "--whitespace=nowarn"],
            check=False, cwd=folder, input=diff.encode(errors="surrogateescape"), capture_output=True,
            env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "LC_ALL": "C"},
        )  # fmt: skip
    return "" if not done.returncode else f"git apply --check: {done.stderr.decode(errors='replace').strip()}"
