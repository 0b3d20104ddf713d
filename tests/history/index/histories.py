"""Random histories: made with `git fast-import`, and what has to be found in them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

PATHS = ("a", "b", "d/c", "d/e", "f.py")
START = 1_600_000_000

# (kind, path, other): other is the new path of a rename. Two files that swap their names are none: git sees
# two changed files then.
Operation = tuple[str, str, str]
operations = st.tuples(
    st.sampled_from(("change", "add", "delete", "rename")),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
)
linear = st.lists(st.lists(operations, min_size=1, max_size=3), min_size=1, max_size=10)


@dataclass
class History:
    """The truth: which file each path is, and in which commits each file changed, oldest first."""

    # path: its unique text, how often changed
    contents: dict[str, tuple[str, int]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)  # paths whose file was deleted under that name
    changed: dict[int, list[int]] = field(default_factory=dict)
    stream: list[str] = field(default_factory=list)
    texts: int = 0

    def commit(self, number: int, wanted: list[Operation]) -> None:
        """One commit of those operations that can be done; each path takes part in one only."""
        head = (
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter A <a@b> {START + number} +0000\ndata 0\n"
        )
        lines: list[str] = []
        used: set[str] = set()
        for kind, path, other in wanted:
            both = {path, other} if kind == "rename" else {path}
            if not both & used and self._do(kind, path, other, number, lines):
                used |= both
        self.stream.append(head + "".join(lines))

    def _do(self, kind: str, path: str, other: str, number: int, lines: list[str]) -> bool:
        here, there = path in self.contents, other in self.contents
        if kind == "change" and here:
            self._write(path, number, lines)
        elif kind == "add" and not here:
            self._add(path, number)
            self._write(path, number, lines)
        elif kind == "delete" and here:
            self._touch(self.files[path], number)
            self.deleted[path] = self.files.pop(path)
            del self.contents[path]
            lines.append(f"D {path}\n")
        elif kind == "rename" and here and not there and path != other:
            self._touch(self.files[path], number)
            self.files[other] = self.files.pop(path)
            self.contents[other] = self.contents.pop(path)
            self.deleted.pop(other, None)
            lines += [f"D {path}\n", self._blob(other)]
        else:
            return False
        return True

    def _born(self, path: str) -> int:
        return self.deleted.pop(path, len(self.changed) + 1)

    def _add(self, path: str, number: int) -> None:
        self.texts += 1
        self.files[path] = self._born(path)
        self.contents[path] = (f"text {self.texts}", 0)

    def _write(self, path: str, number: int, lines: list[str]) -> None:
        text, times = self.contents[path]
        self.contents[path] = (text, times + 1)
        self._touch(self.files[path], number)
        lines.append(self._blob(path))

    def _touch(self, file: int, number: int) -> None:
        self.changed.setdefault(file, []).append(number)

    def _blob(self, path: str) -> str:
        text, times = self.contents[path]
        data = "".join(f"line {line} of {text}\n" for line in range(40)) + f"changed {times} times\n"
        return f"M 100644 inline {path}\ndata {len(data)}\n{data}\n"

    def commits_of(self, file: int) -> list[int]:
        """Newest first, each once."""
        return list(dict.fromkeys(self.changed[file][::-1]))


def make(top: Path, commits: list[list[Operation]]) -> tuple[History, list[str]]:
    """A repository at `top` (made, bare of files); the ids of its commits, oldest first."""
    history = History()
    for number, wanted in enumerate(commits):
        history.commit(number, wanted)
    top.mkdir(parents=True)
    run(top, "init", "-q", "-b", "main")
    run(top, "fast-import", "--quiet", stdin="".join(history.stream).encode())
    return history, run(top, "rev-list", "--reverse", "main").split()


def run(top: Path, *args: str, stdin: bytes = b"") -> str:
    return subprocess.run(
        ["git", *args], cwd=top, input=stdin, capture_output=True, check=True
    ).stdout.decode()


# What a commit of a branching history does: on which of two lanes, what; or a merge of the other lane into it.
branching = st.lists(
    st.tuples(st.booleans(), st.one_of(st.just("merge"), operations)), min_size=4, max_size=16
)


def make_branching(top: Path, commits: list[tuple[bool, str | Operation]]) -> list[str]:
    """A repository with the branches `main` and `other` and merges between them; the ids of all commits that were
    some branch's tip, in their order."""
    lanes: list[dict[str, str]] = [{}, {}]
    tips, bases = [0, 0], {}
    stream, number = [], 0
    left: set[str] = set()
    for second, wanted in [(False, ("add", "a", "b")), (False, ("add", "d/c", "b")), *commits]:
        lane = int(second)
        tree = lanes[lane]
        if not tips[lane] and tips[0]:  # the other lane leaves the first
            lanes[lane] = tree = dict(lanes[0])
            tips[lane] = tips[0]
            bases = dict(tree)
        merged = ""
        if wanted == "merge":
            theirs = lanes[1 - lane]
            if not tips[1 - lane] or tips[0] == tips[1]:
                continue
            for path in {*theirs, *tree, *bases}:
                if tree.get(path) == bases.get(path):
                    tree.pop(path, None)
                    if path in theirs:
                        tree[path] = theirs[path]
            merged = f"merge :{tips[1 - lane]}\n"
            bases = dict(theirs)
        elif not _change(tree, wanted, number, left):
            continue
        number += 1
        head = f"commit refs/heads/{('main', 'other')[lane]}\nmark :{number}\ncommitter A <a@b> {START + number} +0000\n"
        parent = f"from :{tips[lane]}\n" if tips[lane] else ""
        blobs = "".join(f"M 100644 inline {path}\ndata {len(data)}\n{data}\n" for path, data in tree.items())
        stream.append(f"{head}data 0\n{parent}{merged}deleteall\n{blobs}\n")
        tips[lane] = number
    top.mkdir(parents=True)
    run(top, "init", "-q", "-b", "main")
    marks = top / ".git" / "marks"
    run(top, "fast-import", "--quiet", f"--export-marks={marks}", stdin="".join(stream).encode())
    ids = dict(line.split() for line in marks.read_text().splitlines())
    return [ids[f":{each}"] for each in range(1, number + 1)]


def _change(tree: dict[str, str], wanted: Operation, number: int, left: set[str]) -> bool:
    """No name that a file has left is given to another: which of the two a parallel branch means by it nobody can
    tell."""
    kind, path, other = wanted
    if (kind == "add" and path in left) or (kind == "rename" and other in left):
        return False
    if kind == "change" and path in tree:
        tree[path] += f"changed in {number}\n"
    elif kind == "add" and path not in tree:
        tree[path] = "".join(f"line {line} of {number}\n" for line in range(40))
    elif kind == "delete" and path in tree:
        del tree[path]
    elif kind == "rename" and path in tree and other not in tree:
        tree[other] = tree.pop(path)
        left.add(path)
    else:
        return False
    return True
