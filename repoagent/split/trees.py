"""Bytes to a syntax tree, and the places where a syntax tree is broken."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import UsageError
from repoagent.split.bounded import bounded, is_unreadable, may_overflow
from repoagent.split.languages import UTF16_MARKS, grammar, language_of
from repoagent.split.long_tail import second_grammar

if TYPE_CHECKING:
    import tree_sitter

# A check must not hold an edit up: above this size, or this long in the parser, there is no opinion.
CHECK_BYTES = 4 << 20
CHECK_SECONDS = 2.0
# A split gives up on a grammar that takes so many seconds of processor time, and so many more for each megabyte.
SPLIT_SECONDS = 2.0
_CHUNK = 1 << 16
# The last large texts with their trees: an edit asks for one as outline, for segments and for a check.
_recent: deque[tuple[bytes, str, tree_sitter.Tree]] = deque(maxlen=2)
_MOST_FLAWS = 2000
_KEPT = 1 << 18
_UNWATCHED = (
    1 << 9
)  # some 3 KB of TSX take 12 s, so a shorter text alone is parsed without a look at the clock


class Flaw(NamedTuple):
    """One place where a tree is broken. Lines count from 0, `last` is included.

    `missing` is the token that the parser put in ("" for text it could not place); `first` to `last` is then
    the construct that lacks it, `line` the place where it would have to stand, and `after_comma` says that a
    comma is before.
    """

    line: int
    first: int
    last: int
    missing: str
    text: bytes
    after_comma: bool = False


def source_text(data: bytes) -> bytes:
    """`data` as UTF-8 with the same lines, the only encoding that all grammars read well.

    UTF-16 with a byte-order mark is transcoded, anything else that is no UTF-8 is read as Latin-1, so byte
    offsets in the result are good only for slices of the result; line numbers hold for both. A byte-order
    mark is dropped.
    """
    if data.startswith(UTF16_MARKS):
        return data.decode("utf-16", "replace").encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def parse(data: bytes, language: str) -> tree_sitter.Tree:
    """The syntax tree of `source_text(data)`: what does not fit becomes ERROR and MISSING nodes.

    Raises UsageError for a language without a grammar, and for text that nests too deeply for its grammar. About
    6 MB/s.
    """
    tree = _parsed(source_text(data), language, sys.maxsize, lambda: False)
    if tree is None:
        raise UsageError(f"this text nests too deeply to be parsed as {language}")
    return tree


def parse_part(text: bytes, language: str, part: tree_sitter.Range) -> tree_sitter.Tree | None:
    """As `parse_bytes`, of one part of the text."""
    end = time.process_time() + SPLIT_SECONDS
    return _parsed(text, language, _KEPT, lambda: time.process_time() > end, part)


def forget() -> None:
    """Keep no tree: for who measures a parse, or needs the memory."""
    _recent.clear()


def parse_within(data: bytes, language: str, seconds: float) -> tree_sitter.Tree | None:
    """As `parse`, but None when it takes longer than `seconds`: error recovery on junk can be slow.

    Slice `source_text(data)` for the text of a node: `Node.text` copies a chunk of the file for each node
    here.
    """
    end = time.monotonic() + seconds
    return _parsed(source_text(data), language, _CHUNK, lambda: time.monotonic() > end)


def parse_bytes(text: bytes, language: str) -> tree_sitter.Tree | None:
    """The syntax tree of `text` as it is, UTF-8 or nearly; None when it takes far too long (error recovery on junk).

    Raises UsageError for a language without a grammar.
    """
    end = time.process_time() + SPLIT_SECONDS * (1 + len(text) / 1_000_000)
    return _parsed(text, language, _KEPT, lambda: time.process_time() > end)


def _parsed(
    text: bytes,
    language: str,
    kept_from: int,
    too_late: Callable[[], bool],
    part: tree_sitter.Range | None = None,
) -> tree_sitter.Tree | None:
    """The tree, unless it is `too_late` before or the text nests too deeply. A tree of `kept_from` bytes or
    more is kept for the next who asks. All parsing goes through here."""
    if part is None:
        for known, of, kept in _recent:
            if of == language and known == text:
                return kept
    tree: tree_sitter.Tree | None
    if is_unreadable(text, language):
        return None
    if may_overflow(text, language):
        from repoagent.repo.run import uninterrupted

        safe = bounded(language)
        if safe.language is None:
            return None
        with uninterrupted(), safe.lock:  # ^C would be lost in a call from the parser
            safe.too_deep = False
            tree = _run(safe.language, text, lambda: safe.too_deep or too_late(), part)
            if safe.too_deep:
                return None
    else:
        tree = _run(grammar(language), text, too_late, part)
        if tree is not None and tree.root_node.has_error and (second := second_grammar(language)) is not None:
            other = _run(second, text, too_late, part)
            if other is not None and _brokenness(other, text) < _brokenness(tree, text):
                tree = other
    if tree is not None and part is None and kept_from <= len(text) <= CHECK_BYTES:
        _recent.append((text, language, tree))
    return tree


def _run(
    language: tree_sitter.Language,
    text: bytes,
    too_late: Callable[[], bool],
    part: tree_sitter.Range | None,
) -> tree_sitter.Tree | None:
    import tree_sitter

    parser = tree_sitter.Parser(language, included_ranges=None if part is None else [part])
    if len(text) < _UNWATCHED:
        return parser.parse(text)

    def read(offset: int, _: tuple[int, int]) -> bytes:  # bytes: with a memoryview the binding crashes
        return text[offset : offset + _CHUNK]

    try:
        return parser.parse(read, progress_callback=lambda _offset, _has_error: too_late())
    except ValueError:
        return None


def _brokenness(tree: tree_sitter.Tree, text: bytes) -> tuple[int, int]:
    """How many flaws, and how many bytes were not understood."""
    found = list(islice(flaws(tree, text), _MOST_FLAWS))
    return len(found), sum(len(flaw.text) for flaw in found)


def flaws(tree: tree_sitter.Tree, text: bytes) -> Iterator[Flaw]:
    """The ERROR and MISSING nodes of the tree of `text` in order of the text, without a walk over its sound
    parts."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        if node is not None and node.has_error:
            if node.is_missing:
                whole = node.parent or node
                before = node.prev_sibling
                comma = before is not None and before.type == ","
                yield Flaw(
                    node.start_point.row, whole.start_point.row, whole.end_point.row, node.type, b"", comma
                )
            elif node.is_error:
                row = node.start_point.row
                yield Flaw(row, row, node.end_point.row, "", text[node.start_byte : node.end_byte])
            if cursor.goto_first_child():
                continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def error_count(path: str, data: bytes) -> int | None:
    """How many places of the file do not parse (ERROR and MISSING nodes).

    None without a grammar, for a binary file, and for one too large or too slow to be checked.
    """
    language = language_of(path, data)
    if language is None or len(data) > CHECK_BYTES:
        return None
    tree = parse_within(data, language, CHECK_SECONDS)
    return None if tree is None else sum(1 for _ in flaws(tree, source_text(data)))
