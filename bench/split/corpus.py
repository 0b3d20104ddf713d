"""Select real files of 32 KB and more by a seed, and read them from clones; none is copied into the project."""

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
MEAN_LINE = 300  # bytes; files with longer lines on average are generated
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
    """A file in a repository at a commit."""

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
    """All files of a repository that are large enough and have a judge."""
    tree = git(clone, "ls-tree", "-r", "-l", "-z", origin.commit)
    for entry in tree.split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        path = name.decode(errors="surrogateescape")
        kind = _KIND.get(Path(path).suffix.lower())
        if kind is None or not fields.startswith(b"100"):
            continue
        _, _, blob, size = fields.split()
        if size.isdigit() and int(size) >= SMALLEST:  # git prints BAD if a partial clone lacks the blob
            yield Source(kind, origin.name, path, blob.decode(), int(size), clone)


def chosen(
    sources: Sequence[Source], seed: int, per_kind: int, kinds: Sequence[str] = KINDS, large: int = 1
) -> Iterator[File]:
    """`per_kind` files per kind, from as many repositories as possible. If `large`, one has 1 MB or more where such
    files exist, and up to `large` - 1 more of them are added."""
    for kind in kinds:
        ordered = sorted((one for one in sources if one.kind == kind), key=lambda one: _rank(seed, one.blob))
        usual = [one for one in ordered if one.size <= USUAL]
        yield from _first(_in_turn(usual), per_kind - min(large, 1))
        large_files = list(_first([one for one in ordered if one.size >= LARGE], large))
        yield from large_files
        if len(large_files) < min(large, 1):
            yield from list(_first(_in_turn(usual), per_kind))[per_kind - 1 :]


def _rank(seed: int, blob: str) -> bytes:
    return hashlib.sha256(f"{seed} {blob}".encode()).digest()


def _in_turn(ordered: Sequence[Source]) -> Iterator[Source]:
    """The first source of each repository, then the second of each, and so on."""
    by_repository: dict[str, list[Source]] = {}
    for one in ordered:
        by_repository.setdefault(one.repository, []).append(one)
    queues = list(by_repository.values())
    for number in range(max(map(len, queues), default=0)):
        yield from (queue[number] for queue in queues if number < len(queue))


def _first(sources: Iterator[Source] | Sequence[Source], count: int) -> Iterator[File]:
    """The first `count` files that can be judged, each content once."""
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
    """The file, or None if it is binary, generated, not UTF-8 or unreadable for its judge. A `.h` file with C++ syntax
    (class, namespace, template, access specifier, `std::`) is C++."""
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
    """A file of any size outside a repository; None if its kind is unknown or its judge cannot read it."""
    data = path.read_bytes()
    known = kind or _KIND.get(path.suffix.lower())
    if known is None:
        return None
    source = Source(known, "file", str(path), hashlib.sha256(data).hexdigest(), len(data), path.parent)
    try:
        return File(source, data, marks_of(known, data))
    except Unjudged:
        return None
