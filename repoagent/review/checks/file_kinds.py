"""Find out whether a file is generated, vendored, a lock file or a test, and whether only its comments changed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.git.process import OFFLINE, GitError, git
from repoagent.review.change import Change, ChangedFile

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


LARGEST_PROGRAM = 1 << 20  # bytes of a Python text
FEW, LONG = 20, 1000  # corrected lines of prose, and bytes of one
ALIKE = 0.85  # similarity of a corrected line to the old one
PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")
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


def only_comments(change: Change, *files: ChangedFile) -> bool:
    """Whether only comments and empty lines changed in these files.

    In Python, docstrings and layout count as comments; in prose, a few corrected words do. This reads the files, so
    call it only if a rule has a finding.
    """
    for file in files:
        if file.status != "modified" or file.old_mode != file.new_mode:
            return False
        hunks = change.texts.lines(file)
        lines = [line for hunk in hunks for line in (*hunk.removed, *hunk.added)]
        if not lines:
            return False
        if all(is_comment(file.path, line) for line in lines):
            continue
        if file.path.lower().endswith(PROSE):
            from difflib import SequenceMatcher

            if len(lines) > FEW or any(len(hunk.removed) != len(hunk.added) for hunk in hunks):
                return False
            pairs = [pair for hunk in hunks for pair in zip(hunk.removed, hunk.added, strict=True)]
            matchers = (SequenceMatcher(None, old[:LONG], new[:LONG], autojunk=False) for old, new in pairs)
            if any(matcher.ratio() < ALIKE for matcher in matchers):
                return False
        elif file.path.endswith((".py", ".pyi")):
            old, new = (_program(text) for text in (change.texts.old(file), change.texts.new(file)))
            if old is None or old != new:
                return False
        else:
            return False
    return bool(files)


def _program(text: bytes | None) -> str | None:
    """The syntax tree of a Python file as text, without docstrings; None if it cannot be read."""
    import ast

    tree = parse_python(text) if text is not None and len(text) <= LARGEST_PROGRAM else None
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *_]:
                    del node.body[0]
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
