"""Whether only comments changed, or words of a text were put right: then nothing else need change along.

Asked only where a rule has something to say, so that it may read the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from repoagent.review.change import Change, ChangedFile, Lines

if TYPE_CHECKING:
    import ast

_MOST = 1 << 20  # bytes of a text
_STARRED = re.compile(rb"//|/\*|\*(?=[\s/]|$)")  # `*p = 1` is none
_HASH = re.compile(rb"#")
_DASHES = re.compile(rb"--(?:\s|$)")
_MARKS = {
    _STARRED: (
        "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "cs", "css", "dart", "go", "java", "js", "jsx", "kt", "mjs",
        "cjs", "php", "proto", "rs", "scala", "scss", "swift", "ts", "tsx", "zig",
    ),
    _HASH: ("bash", "cfg", "cmake", "conf", "mk", "pl", "py", "pyi", "r", "rb", "sh", "tcl", "toml", "yaml", "yml"),
    _DASHES: ("hs", "lua", "sql"),
}  # fmt: skip
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")
_FEW, _LONG, _ALIKE = (
    20,
    1000,
    0.85,
)  # lines, bytes of them, and how much a corrected one is like the one before
_ORDERS = (b"#!", b"//go:", b"// +build")  # what tools obey
_MARK_OF = {ending: mark for mark, endings in _MARKS.items() for ending in endings}


def is_comment(path: str, line: bytes) -> bool:
    """Whether a line of the file, as far as it alone says, has nothing but a comment, or nothing at all."""
    bare = line.strip()
    if not bare:
        return True
    if bare.startswith(_ORDERS):
        return False
    mark = _MARK_OF.get(path.rpartition(".")[2].lower())
    if mark is None:
        return False
    if mark is _STARRED and b"*/" in bare:  # the end of one, with nothing behind it
        begin = bare.find(b"/*")
        return bare.endswith(b"*/") and (begin <= 0)
    return mark.match(bare) is not None


def only_comments(change: Change, *files: ChangedFile) -> bool:
    """Whether all that changed in these files are comments and empty lines; in Python documentation strings and the
    layout too; in prose, corrections of a few lines. Not of a file that came, went or has no lines."""
    return bool(files) and all(_only_comments(change, file) for file in files)


def _only_comments(change: Change, file: ChangedFile) -> bool:
    if file.status != "modified" or file.old_mode != file.new_mode:
        return False
    lines = [line for part in change.read_lines(file) for line in (*part.removed, *part.added)]
    if not lines:
        return False
    if all(is_comment(file.path, line) for line in lines):
        return True
    if file.path.lower().endswith(_PROSE):
        return len(lines) <= _FEW and all(_is_correction(part) for part in change.read_lines(file))
    return file.path.endswith((".py", ".pyi")) and _same_python(change.read_old(file), change.read_new(file))


def _is_correction(part: Lines) -> bool:
    """Whether each line became one that is much like it: a word was put right."""
    from difflib import SequenceMatcher

    return len(part.removed) == len(part.added) and all(
        SequenceMatcher(None, old[:_LONG], new[:_LONG], autojunk=False).ratio() >= _ALIKE
        for old, new in zip(part.removed, part.added, strict=True)
    )


def _same_python(old: bytes | None, new: bytes | None) -> bool:
    if old is None or new is None or max(len(old), len(new)) > _MOST:
        return False
    import ast

    try:
        one, other = (ast.dump(_bare(ast.parse(text))) for text in (old, new))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what this Python does not read
        return False
    return one == other


def _bare(tree: ast.Module) -> ast.Module:
    """Without documentation strings."""
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = list(_without(node.body))
    return tree


def _without(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    import ast

    for place, one in enumerate(body):
        text = (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Constant)
            and isinstance(one.value.value, str)
        )
        if place or not text:
            yield one
