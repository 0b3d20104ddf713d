"""The files: real ones of 32 KB and more, chosen by a seed, read from clones and never copied into the project."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.origins import Origin, git
from bench.split.judges import KINDS, Unjudged, marks_of
from bench.split.marks import Marks

SMALLEST, USUAL, LARGE = 32 << 10, 400 << 10, 1 << 20  # bytes
MEAN_LINE = 300  # bytes: what has longer lines on the average was made by a machine for machines
_SUFFIXES = {
    "python": (".py", ".pyi"), "javascript": (".js", ".mjs", ".cjs"), "typescript": (".ts", ".mts"), "tsx": (".tsx",),
    "java": (".java",), "go": (".go",), "rust": (".rs",), "c": (".c", ".h"), "cpp": (".cpp", ".cc", ".cxx", ".hpp"),
    "json": (".json",), "yaml": (".yaml", ".yml"), "xml": (".xml", ".xsd", ".svg", ".csproj"),
    "markdown": (".md",), "html": (".html", ".htm"), "css": (".css",), "bash": (".sh", ".bash"), "rst": (".rst",),
    "text": (".txt",),
}  # fmt: skip
_KIND = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes}
_CPP = re.compile(rb"^\s*(?:class\s+\w|namespace\b|template\s*<|public:|private:)|std::", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A file of a repository at a commit."""

    kind: str
    repository: str
    path: str
    blob: str
    size: int
    clone: Path

    @property
    def name(self) -> str:
        return f"{self.repository}:{self.path}"


@dataclass(frozen=True)
class File:
    source: Source
    data: bytes
    marks: Marks


def candidates(origin: Origin, clone: Path) -> Iterator[Source]:
    """All files of a repository that are large enough and of a kind that is judged."""
    tree = git(clone, "ls-tree", "-r", "-l", "-z", origin.commit)
    for entry in tree.split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        path = name.decode(errors="surrogateescape")
        kind = _KIND.get(Path(path).suffix.lower())
        if kind is None or not fields.startswith(b"100"):
            continue
        _, _, blob, size = fields.split()
        if size.isdigit() and int(size) >= SMALLEST:  # git says BAD of what a partial copy lacks
            yield Source(kind, origin.name, path, blob.decode(), int(size), clone)


def chosen(
    sources: Sequence[Source], seed: int, per_kind: int, kinds: Sequence[str] = KINDS, large: int = 1
) -> Iterator[File]:
    """`per_kind` files of each kind, of as many repositories as there are, and `large` ones of 1 MB and more."""
    for kind in kinds:
        ordered = sorted((one for one in sources if one.kind == kind), key=lambda one: _rank(seed, one.blob))
        usual = [one for one in ordered if one.size <= USUAL]
        yield from _first(_in_turn(usual), per_kind - min(large, 1))
        more = [one for one in ordered if one.size >= LARGE]
        found = list(_first(more, large))
        yield from found
        if len(found) < min(large, 1):
            yield from list(_first(_in_turn(usual), per_kind))[per_kind - 1 :]


def _rank(seed: int, blob: str) -> bytes:
    return hashlib.sha256(f"{seed} {blob}".encode()).digest()


def _in_turn(ordered: Sequence[Source]) -> Iterator[Source]:
    """One of each repository, then a second one of each, …"""
    by_repository: dict[str, list[Source]] = {}
    for one in ordered:
        by_repository.setdefault(one.repository, []).append(one)
    queues = list(by_repository.values())
    for number in range(max(map(len, queues), default=0)):
        yield from (queue[number] for queue in queues if number < len(queue))


def _first(sources: Iterator[Source] | Sequence[Source], count: int) -> Iterator[File]:
    """The first `count` that can be judged; no content twice."""
    seen: set[str] = set()
    for source in sources:
        if len(seen) >= count:
            return
        if source.blob in seen:
            continue
        file = opened(source)
        if file is not None:
            seen.add(source.blob)
            yield file


def opened(source: Source) -> File | None:
    """The file, None when it is binary, made for machines, no UTF-8, or not readable by its judge. A header that holds
    what only C++ has (a class, a namespace, a template, `std::`) is C++, whatever its name."""
    data = git(source.clone, "cat-file", "blob", source.blob)
    if b"\0" in data or len(data) > MEAN_LINE * (data.count(b"\n") + 1):
        return None
    if source.path.endswith(".h") and _CPP.search(data):
        source = replace(source, kind="cpp")
    try:
        data.decode()
        return File(source, data, marks_of(source.kind, data))
    except (UnicodeDecodeError, Unjudged):
        return None


def local(path: Path, kind: str | None = None) -> File | None:
    """A file of this machine, of any size."""
    data = path.read_bytes()
    known = kind or _KIND.get(path.suffix.lower())
    if known is None:
        return None
    source = Source(known, "file", str(path), hashlib.sha256(data).hexdigest(), len(data), path.parent)
    try:
        return File(source, data, marks_of(known, data))
    except Unjudged:
        return None
