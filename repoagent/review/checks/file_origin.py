"""Whether a file is generated, vendored, a lock file or a test: by its path, or by an attribute."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from repoagent.git.process import OFFLINE, GitError, git
from repoagent.review.change import Change

# Folders to which tools copy third-party sources.
VENDORED = re.compile(
    r"(?:^|/)(?:vendor|vendored|_vendor|third[_-]?party|thirdparty|3rd[_-]?party|node_modules|bower_components"
    r"|Godeps/_workspace|Pods)/"
)
# Lock files and their manifests.
LOCKS: Mapping[str, tuple[str, ...]] = {
    "Cargo.lock": ("Cargo.toml",),
    "Gemfile.lock": ("Gemfile",),
    "Pipfile.lock": ("Pipfile",),
    "composer.lock": ("composer.json",),
    "flake.lock": ("flake.nix",),
    "go.sum": ("go.mod",),
    "mix.lock": ("mix.exs",),
    "npm-shrinkwrap.json": ("package.json",),
    "package-lock.json": ("package.json",),
    "pdm.lock": ("pyproject.toml",),
    "pnpm-lock.yaml": ("package.json", "pnpm-workspace.yaml"),
    "poetry.lock": ("pyproject.toml",),
    "pubspec.lock": ("pubspec.yaml",),
    "uv.lock": ("pyproject.toml",),
    "yarn.lock": ("package.json",),
}
_TEST = re.compile(
    r"(?:^|/)(?:tests?|spec|__tests__|testdata|examples?|benches|docs?)/|(?:^|[/_.-])(?:test|spec)[_.-]"
    r"|[_.-](?:test|tests|spec)\.\w+$"
)


class Attributes(NamedTuple):
    """The paths that `.gitattributes` marks as generated or vendored."""

    generated: frozenset[str] = frozenset()
    vendored: frozenset[str] = frozenset()


def is_vendored_path(path: str) -> bool:
    """Whether the path is in a folder for third-party sources."""
    return VENDORED.search(path) is not None


def is_lock(path: str) -> bool:
    """Whether a tool writes the file from a manifest."""
    return path.rpartition("/")[2] in LOCKS


def is_test(path: str) -> bool:
    """Whether the file is a test, an example or documentation."""
    return _TEST.search(path) is not None


def attributes(top: Path, change: Change, paths: Sequence[str]) -> Attributes:
    """The attributes of these paths after the change; for a foreign change, those before it. One git call."""
    if not paths:
        return Attributes()
    source = {
        "staged": ("--cached",),
        "commit": (f"--source={change.base or change.head}",),
        "range": (f"--source={change.head if change.own else change.base}",),
    }
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    query = ("-z", "--stdin", "linguist-generated", "linguist-vendored")
    try:
        out = git(top, "check-attr", *source.get(change.kind, ()), *query, stdin=stdin, env=OFFLINE)
    except GitError:  # --source needs git 2.40, and a partial clone may lack the file
        return Attributes()
    generated, vendored = set[str](), set[str]()
    fields = os.fsdecode(out).split("\0")
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if value in ("set", "true"):
            (generated if name == "linguist-generated" else vendored).add(path)
    return Attributes(frozenset(generated), frozenset(vendored))
