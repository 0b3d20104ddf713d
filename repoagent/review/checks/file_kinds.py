"""Find out whether a file is generated, vendored, a lock file or a test, and whether only its comments changed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.git.process import OFFLINE, GitError, git
from repoagent.review.change import Change

if TYPE_CHECKING:
    import ast

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
    generated: frozenset[str] = frozenset()
    vendored: frozenset[str] = frozenset()


def is_vendored_path(path: str) -> bool:
    return VENDORED.search(path) is not None


def is_lock(path: str) -> bool:
    return path.rpartition("/")[2] in LOCKS


def is_test(path: str) -> bool:
    """Whether the file is a test, an example or documentation."""
    return _TEST.search(path) is not None


def attributes(top: Path, change: Change, paths: Sequence[str]) -> Attributes:
    """Return what `.gitattributes` says about these paths after the change or, for a foreign change, before it."""
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


DIRECTIVES = (b"#!", b"//go:", b"// +build")


def parse_python(text: bytes) -> ast.Module | None:
    """The syntax tree; None if this Python cannot parse the text."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


_STARRED = re.compile(rb"//|/\*|\*(?=[\s/]|$)")  # but not `*p = 1`
_HASH = re.compile(rb"#")
_DASHES = re.compile(rb"--(?:\s|$)")
_SUFFIXES = {
    _STARRED: (
        "c h cc cpp cxx hh hpp hxx cs css dart go java js jsx kt mjs cjs php proto rs scala scss swift ts tsx zig"
    ),
    _HASH: "bash cfg cmake conf mk pl py pyi r rb sh tcl toml yaml yml",
    _DASHES: "hs lua sql",
}
_MARKS = {suffix: mark for mark, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def is_comment(path: str, line: bytes) -> bool:
    """Whether the line is empty or only a comment."""
    stripped = line.strip()
    if not stripped:
        return True
    mark = _MARKS.get(path.rpartition(".")[2].lower())
    if mark is None or stripped.startswith(DIRECTIVES):
        return False
    if mark is _STARRED and b"*/" in stripped:  # the end of a comment, without code after it
        return stripped.endswith(b"*/") and stripped.find(b"/*") <= 0
    return mark.match(stripped) is not None


def only_comments(change: Change) -> bool:
    """Whether only comments and empty lines changed. This reads the files, so call it only if a rule has a finding."""
    for file in change.files:
        lines = [line for hunk in change.texts.lines(file) for line in (*hunk.removed, *hunk.added)]
        if file.status != "modified" or file.old_mode != file.new_mode or not lines:
            return False
        if not all(is_comment(file.path, line) for line in lines):
            return False
    return True
