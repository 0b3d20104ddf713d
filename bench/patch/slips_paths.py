"""Files whose paths are not plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.slip import FILE, slip

Naming = Callable[[Draft, str], tuple[str, str]]


def _moved(name: str, alter: Callable[[str], str], *, quoted: bool = False) -> None:
    @slip(name, FILE, "path")
    def do(draft: Draft) -> bool:
        for change in draft.changes:
            change.both(path=alter(change.path))
        if quoted:
            draft.wraps.append(lambda text: "\n".join(_c_style(line) for line in text.split("\n")))
        return True


def _c_style(line: str) -> str:
    """A header line as git writes it when the name isn't ASCII."""
    for head in ("--- ", "+++ "):
        if line.startswith(head) and not line.isascii():
            name = "".join(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in line[4:].encode())
            return f'{head}"{name}"'
    if line.startswith("diff --git a/") and not line.isascii():
        half = (len(line) - len("diff --git ")) // 2
        names = [line[11 : 11 + half], line[12 + half :]]
        return "diff --git " + " ".join(_c_style(f"--- {name}")[4:] for name in names)
    return line


def _base(path: str, alter: Callable[[str], str]) -> str:
    folder, slash, base = path.rpartition("/")
    return f"{folder}{slash}{alter(base)}"


_moved("path-with-spaces", lambda path: _base(path, lambda base: f"my {base}"))
_moved("path-not-ascii", lambda path: _base(path, lambda base: f"\u00fcber-\u6587{base}"))
_moved("path-c-style", lambda path: _base(path, lambda base: f"\u00fcber-{base}"), quoted=True)
_moved("path-brackets", lambda path: _base(path, lambda base: f"[id]({base})"))
_moved("path-like-prefix", lambda path: f"a/b/{path}")
_moved("path-dotfile", lambda path: _base(path, lambda base: f".{base}"))
_moved("path-no-folder", lambda path: path.rpartition("/")[2])


@slip("same-base-names", FILE, "path extra", files=1)
def same_base(draft: Draft) -> bool:
    """Another file of the same base name is known; the path given is whole."""
    for change in list(draft.changes):
        base = change.path.rpartition("/")[2]
        if change.before is None:
            return False
        other = replace(change.before, path=f"other/place/{base}")
        draft.extra[other.path] = other.content
    return True
