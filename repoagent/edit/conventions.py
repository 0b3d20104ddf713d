"""What the repository says to every assistant: its context file and the conventions it has written down."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from repoagent.agent import fence
from repoagent.edit.scope import WhyNot
from repoagent.llm import Part
from repoagent.store.atomic import read_regular

CONVENTION_FILES = ("AGENTS.md", "CLAUDE.md", "CONVENTIONS.md")
CONTEXT_LIMIT = 32 * 1024  # bytes of repository context, so that a long AGENTS.md can't crowd out the file
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)


def repository_parts(
    top: Path, root: Path, further: Sequence[str], targets: Sequence[str], why_not: WhyNot
) -> list[Part]:
    """What the repository says to every assistant: `.repoagent/context.md`, the configured files, the conventions.

    Nearest to the first target comes first. It is data for the model, marked as such, within a budget. A repository's
    configuration may name files here, so what may not be shown stays out.
    """
    wanted = [root / "context.md", *(top / name for name in further)]
    folders = (
        [PurePosixPath(), *reversed(PurePosixPath(targets[0]).parents[:-1])] if targets else [PurePosixPath()]
    )
    wanted += [top / folder / name for folder in reversed(folders) for name in CONVENTION_FILES]
    parts: list[Part] = []
    left = CONTEXT_LIMIT
    for path in dict.fromkeys(wanted):
        inside = _inside(path, top, root) and not why_not(os.path.relpath(path, top))
        data = read_regular(path.resolve()) if inside else None
        if not data or left <= 0 or not _COMMENT.sub(b"", data).strip():
            continue
        text = data[:left].decode(errors="replace")
        left -= len(data)
        name = path.relative_to(top if path.is_relative_to(top) else root.parent).as_posix()
        parts.append(Part(fence(text, f"context path={json.dumps(name)}") + "\n", f"context {name}"))
    return parts


def _inside(path: Path, top: Path, root: Path) -> bool:
    """Whether the real place of `path` is under the work tree or `.repoagent/` (`context` may not lead out)."""
    real = path.resolve()
    return real.is_relative_to(top.resolve()) or real.is_relative_to(root.resolve())
