"""Cut a change into blocks for a model.

`gather` orders the files, skips those that a model cannot use or must not see, and cuts each into blocks: changed lines
with their context. `pack` combines blocks into calls, those of a file together. A `FileView` has the lines of both
sides of a file in the form that prompts show and quote; `Versions` reads any file in the reviewed version, independent
of the work tree.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot, why_content_is_off_limits
from repoagent.errors import Refused
from repoagent.git.files import Source, blob_hash, check_path, read_source
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.llm.model import printable
from repoagent.llm.usage import estimate_tokens
from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.checks.file_origin import Attributes
from repoagent.review.checks.file_origin import attributes as attributes_of
from repoagent.review.finding import Level
from repoagent.review.rules import RULES, level_of
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol


@dataclass(frozen=True)
class FileView:
    """The lines of a changed file by number, from 1, without line endings; keys and tokens are masked, unprintable
    characters are U+FFFD.

    A side whose text is missing has only the lines of the change. `ending` is the line ending of the new text.
    """

    file: ChangedFile
    hunks: tuple[Lines, ...]
    new: Mapping[int, str]
    old: Mapping[int, str]
    data: bytes | None
    ending: str = "\n"

    @property
    def path(self) -> str:
        return self.file.path

    def side(self, *, old: bool) -> Mapping[int, str]:
        return self.old if old else self.new

    def changed(self, *, old: bool) -> list[int]:
        """The numbers of the added lines, or of the removed ones."""
        if old:
            return [hunk.old + n for hunk in self.hunks for n in range(len(hunk.removed))]
        return [hunk.new + n for hunk in self.hunks for n in range(len(hunk.added))]


def view_of(change: Change, file: ChangedFile) -> FileView | None:
    """The view of a file; None if no line changed (binary, mode only, pure rename)."""
    hunks = change.read_lines(file)
    if not hunks:
        return None
    data = change.read_new(file)
    before = change.read_old(file)
    new = _numbered(data) if data is not None else _lines_of_hunks(hunks, old=False)
    old = _numbered(before) if before is not None else _lines_of_hunks(hunks, old=True)
    return FileView(file, hunks, new, old, data, "\r\n" if _is_crlf(hunks, data) else "\n")


def text_of(data: bytes) -> str:
    """The bytes of a file as shown to a model: decoded, masked, printable, with `\\n` line endings."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return printable(mask(text.replace("\r\n", "\n")))


def _numbered(data: bytes) -> dict[int, str]:
    lines = text_of(data).split("\n")
    if not lines[-1]:
        lines.pop()
    return dict(enumerate(lines, 1))


def _lines_of_hunks(hunks: tuple[Lines, ...], *, old: bool) -> dict[int, str]:
    numbered: dict[int, str] = {}
    for hunk in hunks:
        lines, first = (hunk.removed, hunk.old) if old else (hunk.added, hunk.new)
        text = text_of(b"\n".join(line.rstrip(b"\r\n") for line in lines))
        numbered |= dict(enumerate(text.split("\n")[: len(lines)], first))
    return numbered


def _is_crlf(hunks: tuple[Lines, ...], data: bytes | None) -> bool:
    added = [line for hunk in hunks for line in hunk.added]
    sample = added or (data or b"").splitlines(keepends=True)[:1]
    return bool(sample) and all(line.endswith(b"\r\n") for line in sample)


CONTEXT_LINES = 8
WHOLE_LINES = 80  # of a definition that is shown completely
MOST_LINES, MOST_CHARACTERS = 300, 24_000  # of one block
LINE_CHARACTERS = 400  # after which a line is cut


@dataclass(frozen=True)
class Row:
    """A line as shown: "+" was added, "-" removed, " " unchanged; a removed one has its number in the old file."""

    sign: str
    number: int
    text: str

    @property
    def shown(self) -> str:
        text = self.text if len(self.text) <= LINE_CHARACTERS else self.text[:LINE_CHARACTERS] + " …(cut)"
        return f"{self.number:>6} {self.sign}| {text}".rstrip()


@dataclass(frozen=True)
class Block:
    """A section of one file; `scope` is the signature of the definition that contains it."""

    view: FileView = field(repr=False, compare=False)
    rows: tuple[Row, ...]
    scope: str = ""

    @property
    def path(self) -> str:
        return self.view.path

    @cached_property
    def text(self) -> str:
        return "".join(f"{row.shown}\n" for row in self.rows)

    @cached_property
    def tokens(self) -> int:
        return estimate_tokens(self.text) + 20

    @property
    def name(self) -> str:
        """Its changed lines, for the user: `src/a.py:10-14`."""
        numbers = [row.number for row in self.rows if row.sign == "+"] or [self.rows[0].number]
        return f"{self.path}:{numbers[0]}" + (f"-{numbers[-1]}" if numbers[-1] > numbers[0] else "")

    def first(self, *, old: bool) -> int:
        """The line from which cached line numbers in this block count."""
        return next((row.number for row in self.rows if (row.sign == "-") is old), 0)

    def key(self, question: str) -> str:
        """A hash of the block and the question `question`, independent of line numbers."""
        text = "\n".join([question, self.path, self.scope, *(row.sign + row.text for row in self.rows)])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def symbols_of(view: FileView) -> list[Symbol]:
    """The definitions of the new text; none if it is missing or has no grammar."""
    from repoagent.syntax.outline import outline

    return list(outline(view.path, view.data)) if view.data is not None else []


def scopes(view: FileView, symbols: Sequence[Symbol]) -> dict[int, str]:
    """The qualified name of the innermost definition around each added line."""
    names: dict[int, str] = {}
    for number in view.changed(old=False):
        symbol = _innermost(symbols, number, number)
        if symbol is not None:
            names[number] = symbol.qualified_name
    return names


def blocks_of(view: FileView, symbols: Sequence[Symbol]) -> list[Block]:
    """The blocks of a file, in order. Each changed line is in exactly one."""
    stretches: list[list[int]] = []
    for hunk in view.hunks:
        start = hunk.new if hunk.added else hunk.new + 1
        end = start + max(len(hunk.added), 1) - 1
        first, last = _with_context(view, symbols, start, end)
        if stretches and first <= stretches[-1][1]:
            stretches[-1][0] = min(stretches[-1][0], first)
            stretches[-1][1] = max(stretches[-1][1], last)
        else:
            stretches.append([first, last])
    blocks = []
    for first, last in stretches:
        rows = _rows(view, first, last)
        for part in _cut(rows, symbols):
            if any(row.sign != " " for row in part):
                blocks.append(Block(view, part, _scope(part, symbols)))
    return blocks


def _with_context(view: FileView, symbols: Sequence[Symbol], start: int, end: int) -> tuple[int, int]:
    last = max(view.new, default=0)
    enclosing = _innermost(symbols, start, min(end, last), WHOLE_LINES)
    if enclosing is not None:  # without context, so that a change outside does not change this block
        return enclosing.first_line, enclosing.last_line
    return max(1, start - CONTEXT_LINES), min(end + CONTEXT_LINES, max(last, 1))


def _innermost(symbols: Sequence[Symbol], start: int, end: int, most: int | None = None) -> Symbol | None:
    """The smallest definition around the lines; with `most`, the largest of at most so many lines."""
    enclosing = [symbol for symbol in symbols if symbol.first_line <= start and end <= symbol.last_line]
    if most is None:
        return min(enclosing, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)
    small = [symbol for symbol in enclosing if symbol.last_line - symbol.first_line < most]
    return max(small, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)


def _rows(view: FileView, first: int, last: int) -> list[Row]:
    """The lines `first` to `last` of the new text, with the removed ones at their positions."""
    rows: list[Row] = []
    added = set(view.changed(old=False))
    removed = {hunk.new if hunk.added else hunk.new + 1: hunk for hunk in view.hunks if hunk.removed}
    to_end = last >= max(view.new, default=0)
    for number in range(first, last + 2):
        if (hunk := removed.get(number)) and (number <= last or to_end):
            rows += [Row("-", hunk.old + n, view.old.get(hunk.old + n, "")) for n in range(len(hunk.removed))]
        if number <= last and number in view.new:
            rows.append(Row("+" if number in added else " ", number, view.new[number]))
    return rows


def _cut(rows: list[Row], symbols: Sequence[Symbol]) -> list[tuple[Row, ...]]:
    """Split into parts of bounded length, before a definition in the second half of a part if there is one."""
    starts = {symbol.first_line for symbol in symbols}
    parts = []
    while rows:
        end = size = 0
        while (
            end < len(rows)
            and end < MOST_LINES
            and (not end or size + len(rows[end].shown) < MOST_CHARACTERS)
        ):
            size += len(rows[end].shown) + 1
            end += 1
        if end < len(rows):
            good = [n for n in range(end // 2, end) if rows[n].sign != "-" and rows[n].number in starts]
            end = max(good[-1] if good else end, 1)
        parts.append(tuple(rows[:end]))
        rows = rows[end:]
    return parts


def _scope(rows: Sequence[Row], symbols: Sequence[Symbol]) -> str:
    numbers = [row.number for row in rows if row.sign == "+"] or [
        row.number for row in rows if row.sign == " "
    ]
    symbol = _innermost(symbols, numbers[0], numbers[-1]) if numbers else None
    return symbol.signature if symbol is not None else ""


FILES = 12  # of one call


def pack(blocks: Iterable[Block], budget: int) -> list[tuple[Block, ...]]:
    """Combine the blocks, in order, into parts of at most about `budget` tokens; a larger block is a part of its own.

    A file that fits into one part is not split unless much of the part before would stay empty.
    """
    parts: list[list[Block]] = []
    remaining = files = 0
    for _, group in groupby(blocks, key=lambda block: block.path):
        file_blocks = list(group)
        size = _size(file_blocks)
        if not parts or files >= FILES or (size > remaining and (size <= budget and remaining < budget // 2)):
            parts.append([])
            remaining, files = budget, 0
        files += 1
        for block in file_blocks:
            if block.tokens > remaining and parts[-1]:
                parts.append([])
                remaining, files = budget, 1
            parts[-1].append(block)
            remaining -= block.tokens
    return [tuple(part) for part in parts if part]


def _size(blocks: Sequence[Block]) -> int:
    return sum(block.tokens for block in blocks)


NAMED = 5
LONG_LINES = 1_000  # average bytes per line of a file not written by hand
LOCKS = (
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb",
    "deno.lock", "poetry.lock", "pdm.lock", "uv.lock", "pipfile.lock", "cargo.lock", "gemfile.lock", "composer.lock",
    "go.sum", "go.work.sum", "flake.lock", "mix.lock", "pubspec.lock", "podfile.lock", "packages.lock.json",
    "gradle.lockfile", "*.lockfile", "conan.lock", "package.resolved", "module.bazel.lock", ".terraform.lock.hcl",
)  # fmt: skip
VENDORED = frozenset(
    {"vendor", "vendored", "third_party", "thirdparty", "third-party", "node_modules", "bower_components"}
)
BUILT = ("*.min.js", "*.min.css", "*.map", "*.snap", "*.pb.go", "*_pb2.py", "*_pb2_grpc.py", "*.g.dart")

_TEST = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testing|testdata)/|(^|/)(test_[^/]*|conftest\.py)$|[._-](test|spec)s?\.\w+$|Tests?\.\w+$",
    re.ASCII,
)
_PROSE = re.compile(r"\.(md|rst|adoc|txt|tex)$|(^|/)(docs?|changelog|license|authors)(/|$)", re.IGNORECASE)
_DATA = re.compile(
    r"\.(json|ya?ml|toml|ini|cfg|conf|xml|csv|svg|lock|properties)$|(^|/)\.[^/]+$", re.IGNORECASE
)


def review_order(path: str) -> tuple[int, str]:
    """Sort key for the files of a change: source, tests, configuration and data, prose."""
    kind = 3 if _PROSE.search(path) else 2 if _DATA.search(path) else 1 if _TEST.search(path) else 0
    return kind, path


def why_skipped(file: ChangedFile, attributes: Attributes, why_not: WhyNot) -> str | None:
    """The reason to skip a file regardless of its content, as a phrase; None if there is none."""
    path = file.path
    name = path.rsplit("/", 1)[-1].lower()
    if why_not(path) or (file.old_path and why_not(file.old_path)):
        return "withheld from models by .repoagentignore, or because files of that name usually hold secrets"
    if "160000" in (file.old_mode, file.new_mode):
        return "a submodule"
    if file.status == "deleted":
        return "deleted"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in LOCKS):
        return "a lock file"
    if path in attributes.generated:
        return "generated"
    if path in attributes.vendored:
        return "vendored"
    if VENDORED & set(path.lower().split("/")[:-1]):
        return "vendored"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in BUILT):
        return "generated"
    return None


def why_content_skipped(data: bytes) -> str | None:
    """The reason to skip a file because of its content; None if there is none."""
    if reason := why_content_is_off_limits(data):
        return "a Git LFS pointer" if "LFS" in reason else "generated"
    lines = data.count(b"\n") + 1
    return (
        "minified, or data in very long lines"
        if len(data) > LONG_LINES * lines and len(data) > 5_000
        else None
    )


def skipped_phrases(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """A phrase for each reason, with the names of its files."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in skipped:
        by_reason.setdefault(reason, []).append(path)
    return [f"{list_names(paths)} ({reason}; by the model)" for reason, paths in by_reason.items()]


def list_names(names: Sequence[str], most: int = NAMED) -> str:
    """The first `most` names in one line."""
    printable_names = [name if name.isprintable() else repr(name) for name in names]
    if len(printable_names) > most:
        return ", ".join(printable_names[:most]) + f" and {len(printable_names) - most} more"
    return ", ".join(printable_names)


@dataclass
class Material:
    """The blocks of a change in the order of review, and a phrase for each skipped part."""

    blocks: list[Block] = field(default_factory=list)
    views: dict[str, FileView] = field(default_factory=dict)
    scopes: dict[str, Mapping[int, str]] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.views)


def gather(change: Change, worktree: WorkTree, why_not: WhyNot) -> Material:
    """Cut the change into blocks; skip files that a model cannot use or must not see."""
    material = Material()
    skipped: list[tuple[str, str]] = []
    attributes = attributes_of(worktree.top, change, [file.path for file in change.files])
    for file in sorted(change.files, key=lambda file: review_order(file.path)):
        reason = why_skipped(file, attributes, why_not)
        view = None if reason else view_of(change, file)
        if view is not None:
            reason = why_content_skipped(view.data or b"")
        elif not reason and _is_changed_binary(change, file):
            reason = "binary"
        if reason:
            skipped.append((file.path, reason))
        elif view is not None:
            symbols = symbols_of(view)
            material.views[file.path] = view
            material.scopes[file.path] = scopes(view, symbols)
            material.blocks += blocks_of(view, symbols)
    material.unseen += skipped_phrases(skipped)
    return material


def _is_changed_binary(change: Change, file: ChangedFile) -> bool:
    """Whether the content of a file without changed lines changed, not only its mode."""
    if file.status not in ("added", "modified") or (file.old_blob and file.old_blob == file.new_blob):
        return False
    return bool(change.read_new(file)) if file.new_blob else file.old_mode == file.new_mode


def unreviewed(blocks: Sequence[Block]) -> str:
    """The phrase for blocks that lack of time, money or a model left out."""
    return f"{list_names([block.name for block in blocks])} (by the model: see the note on it)"


def levels_of(settings: Settings) -> dict[str, Level]:
    """The levels of the enabled model rules."""
    levels = {rule.id: level_of(rule.id, settings) for rule in RULES.values() if rule.source == "model"}
    return {rule: level for rule, level in levels.items() if level is not None}


REGULAR = ("100644", "100755")


class Versions:
    """Read files after the change: from the change, or else from the commit, the index or the work tree."""

    def __init__(self, worktree: WorkTree, change: Change) -> None:
        self.worktree = worktree
        self.change = change
        self.files = {file.path: file for file in change.files}

    @property
    def at(self) -> str | None:
        """Where `git grep` searches: a commit, "" for the index, None for the work tree."""
        if self.change.head:
            return self.change.head
        return "" if self.change.kind == "staged" else None

    def read(self, path: str) -> Source:
        """The file `path`. Raises Refused if it is not a regular file of the repository."""
        check_path(path)
        file = self.files.get(path)
        if file is not None and file.status != "deleted":
            data = self.change.read_new(file)
            if data is not None:
                mode = file.new_mode or REGULAR[0]
                return Source(path, data, mode, blob_hash(data, self.worktree.object_format))
        if self.at is None:
            return read_source(self.worktree, path)
        return self._read(path)

    def _read(self, path: str) -> Source:
        if self.at:
            listed = git(self.worktree.top, "ls-tree", "-z", self.at, "--", path)
        else:
            listed = git(self.worktree.top, "ls-files", "-s", "-z", "--", path)
        entries = [
            entry
            for entry in listed.split(b"\0")
            if entry.endswith(b"\t" + path.encode("utf-8", "surrogateescape"))
        ]
        if not entries:
            return Source(path, None, None, "")
        fields = entries[0].partition(b"\t")[0].decode().split()
        mode, blob = fields[0], fields[2] if self.at else fields[1]
        if mode not in REGULAR:
            raise Refused(f"{path} is not a regular file")
        return Source(path, git(self.worktree.top, "cat-file", "blob", blob), mode, blob)
