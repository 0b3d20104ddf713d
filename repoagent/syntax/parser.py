"""Parse bytes into a syntax tree, and find the syntax errors in a tree.

Some scanners overflow the buffer of 1,024 bytes that tree-sitter provides for their state: YAML's writes 4 bytes for
each open block and stops two bytes too late, at the 254th; Python's writes one byte too many at 511 open blocks inside
a string, and Ruby's two for its here-documents. Text that may cause this is parsed with a copy of the grammar whose
scanner first writes to a larger buffer (`_BoundedGrammar`).
"""

from __future__ import annotations

import codecs
import ctypes
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from repoagent.syntax import languages

if TYPE_CHECKING:
    import tree_sitter

# A check must not delay an edit: it skips larger files, and gives up after this time.
CHECK_BYTES = 4 << 20
CHECK_SECONDS = 2.0
_SPLIT_SECONDS = 2.0  # of processor time, and as many per megabyte
_CHUNK = 1 << 16
_LEAST_CACHED = 1 << 18  # bytes
_UNWATCHED = 1 << 9  # bytes parsed without a time limit: 3 KB of TSX can take 12 s
# The trees of the last large texts: an edit needs a tree for the outline, for segments and for a check.
_recent: deque[tuple[bytes, str, tree_sitter.Tree]] = deque(maxlen=2)


class Flaw(NamedTuple):
    """A syntax error in a tree. Lines count from 0, and `last` is inclusive.

    `missing` is the token that the parser inserted on `line`, in the construct from `first` to `last`; it is "" for
    text that could not be parsed.
    """

    line: int
    first: int
    last: int
    missing: str
    text: bytes
    after_comma: bool = False


def source_text(data: bytes) -> bytes:
    """`data` as UTF-8 without a byte-order mark, the only encoding that all grammars read well.

    UTF-16 with a byte-order mark is transcoded; anything else that is not valid UTF-8 is decoded as Latin-1. Byte
    offsets refer to the result; line numbers are the same for both.
    """
    if data.startswith(languages.UTF16_MARKS):
        return data.decode("utf-16", "replace").encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1").encode()
    return data.removeprefix(UTF8_MARK)


def parse_within(data: bytes, language: str, seconds: float) -> tree_sitter.Tree | None:
    """The syntax tree of `source_text(data)`; None if it nests too deeply or takes longer than `seconds` to parse.

    The parser reads about 6 MB/s, but error recovery is slow. Slice the source text to get the text of a node:
    `Node.text` copies a chunk of the file each time. Raises UsageError for a language without a grammar.
    """
    end = time.monotonic() + seconds
    return _parsed(source_text(data), language, _CHUNK, lambda: time.monotonic() > end)


def parse_bytes(text: bytes, language: str, part: tree_sitter.Range | None = None) -> tree_sitter.Tree | None:
    """Like `parse_within`, for text that should be UTF-8, or one part of it; None if it takes far too long."""
    end = time.process_time() + _SPLIT_SECONDS * (1 + len(text) / 1_000_000)
    return _parsed(text, language, _LEAST_CACHED, lambda: time.process_time() > end, part)


def clear_cache() -> None:
    """Drop the cached trees of large texts."""
    _recent.clear()


def _parsed(
    text: bytes,
    language: str,
    least_cached: int,
    too_late: Callable[[], bool],
    part: tree_sitter.Range | None = None,
) -> tree_sitter.Tree | None:
    """All parsing goes through here. Trees of texts of at least `least_cached` bytes are cached."""
    for cached, its_language, its_tree in _recent:
        if part is None and its_language == language and cached == text:
            return its_tree
    if language == "ruby" and _RUBY_LONG_WORD.search(text):
        return None
    tree: tree_sitter.Tree | None
    if may_overflow(text, language):
        from repoagent.git.process import defer_signals

        bounded = _bounded_grammar(language)
        if bounded.language is None:
            return None
        with defer_signals(), bounded.lock:  # ^C would be lost in a call from the parser
            bounded.too_deep = False
            tree = _run(bounded.language, text, lambda: bounded.too_deep or too_late(), part)
            if bounded.too_deep:
                return None
    else:
        tree = _run(languages.load_grammar(language), text, too_late, part)
    if tree is not None and part is None and least_cached <= len(text) <= CHECK_BYTES:
        _recent.append((text, language, tree))
    return tree


def _run(
    language: tree_sitter.Language, text: bytes, too_late: Callable[[], bool], part: tree_sitter.Range | None
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


def find_flaws(tree: tree_sitter.Tree, text: bytes) -> Iterator[Flaw]:
    """The ERROR and MISSING nodes of the tree of `text`, in order."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        if node is not None and node.has_error:
            row = node.start_point.row
            if node.is_missing:
                whole, before = node.parent or node, node.prev_sibling
                comma = before is not None and before.type == ","
                yield Flaw(row, whole.start_point.row, whole.end_point.row, node.type, b"", comma)
            elif node.is_error:
                yield Flaw(row, row, node.end_point.row, "", text[node.start_byte : node.end_byte])
            if cursor.goto_first_child():
                continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def error_count(path: str, data: bytes) -> int | None:
    """The number of syntax errors in a file; None if there is no grammar, or if the file is binary, too large or too
    slow to check."""
    language = languages.language_of(path, data)
    if language is None or len(data) > CHECK_BYTES:
        return None
    tree = parse_within(data, language, CHECK_SECONDS)
    return None if tree is None else sum(1 for _ in find_flaws(tree, source_text(data)))


_BUFFER = 1024  # TREE_SITTER_SERIALIZATION_BUFFER_SIZE
_SCRATCH = 1 << 16
# Each of these opens at most one block of YAML, even if the text does not parse: 10 bytes + 4 for each.
_YAML_OPENS = re.compile(rb"[-?:](?=[\s\0]|\Z)|[|>]")
_YAML_BLOCKS = (_BUFFER - 10) // 4
# A block of Python is indented further than the one around it: 2 bytes, 255 for strings at most, 2 for each block.
_PYTHON_BLANK = re.compile(rb"(?:[ \t\f\r]|\\\r?\n){40,}")
_PYTHON_COLUMNS = (_BUFFER - 2 - 255) // 2
_TAB = 8
_RUBY_HEREDOC = re.compile(rb"<<[~-]?[\"'`\w\x80-\xff]")
# Ruby's scanner stores the length of a here-document's word in one byte, and corrupts its state for a longer word: such
# text must not be parsed.
_RUBY_LONG_WORD = re.compile(rb"<<[~-]?(?:\"[^\"]{256}|'[^']{256}|`[^`]{256}|[\w\x80-\xff]{256})")


def may_overflow(text: bytes, language: str) -> bool:
    """Whether `text` could nest so deeply that the scanner of its grammar writes past its buffer."""
    if language == "yaml":
        return sum(1 for _ in islice(_YAML_OPENS.finditer(text), _YAML_BLOCKS + 1)) > _YAML_BLOCKS
    if language == "python":
        blanks = (match[0] for match in _PYTHON_BLANK.finditer(text))
        return any(len(blank) + (_TAB - 1) * blank.count(b"\t") > _PYTHON_COLUMNS for blank in blanks)
    return language == "ruby" and _RUBY_HEREDOC.search(text) is not None


class _Language(ctypes.Structure):
    """`TSLanguage`, the same in versions 13 to 15 of tree-sitter's ABI."""

    _fields_ = (
        ("counts", ctypes.c_uint32 * 9),
        ("max_alias_sequence_length", ctypes.c_uint16),
        ("tables", ctypes.c_void_p * 15),
        ("keyword_capture_token", ctypes.c_uint16),
        ("external_states", ctypes.c_void_p * 2),
        ("create_destroy_scan", ctypes.c_void_p * 3),
        ("serialize", ctypes.c_void_p),
        ("deserialize", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 8),
    )


_SIZES = {
    13: _Language.rest.offset,
    14: _Language.rest.offset + ctypes.sizeof(ctypes.c_void_p),
    15: ctypes.sizeof(_Language),
}


class _BoundedGrammar:
    """A copy of a grammar whose scanner stays within its buffer: `language`, or None if it cannot be created. Hold
    `lock` during a parse; if `too_deep` is set afterwards, the state did not fit and the tree is useless."""

    def __init__(self, language: str) -> None:
        import tree_sitter

        self.lock = threading.Lock()
        self.too_deep = False
        self.language: tree_sitter.Language | None = None
        capsule = languages.grammar_capsule(language)
        size = _SIZES.get(tree_sitter.Language(capsule).abi_version) if capsule is not None else None
        if size is None:
            return
        original = ctypes.string_at(languages.address_of(capsule), size)
        copy = _Language.from_buffer_copy(original.ljust(ctypes.sizeof(_Language), b"\0"))
        write = ctypes.PYFUNCTYPE(ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(copy.serialize)
        scratch = ctypes.create_string_buffer(_SCRATCH)
        address, move = ctypes.addressof(scratch), ctypes.memmove

        def serialize(scanner: int, buffer: int) -> int:
            written: int = write(scanner, address)
            if written > _BUFFER:
                self.too_deep = True
                return 0  # the state at the beginning of a text
            move(buffer, address, written)
            return written

        bounded = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(serialize)
        copy.serialize = ctypes.cast(bounded, ctypes.c_void_p).value
        self._references = copy, scratch, bounded  # the parser has their addresses
        self.language = tree_sitter.Language(languages.capsule_of(ctypes.addressof(copy)))


_bounded_grammar = cache(_BoundedGrammar)

UTF8_MARK = codecs.BOM_UTF8
WIDE_MARKS = {  # the longer ones first: the mark of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def common_prefix(left: bytes, right: bytes) -> int:
    """The length of the common prefix, by bisection: a loop over bytes is slow."""
    low, high = 0, min(len(left), len(right))
    first, second = memoryview(left), memoryview(right)
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(left: bytes, right: bytes, most: int) -> int:
    """The length of the common suffix, at most `most`."""
    return min(common_prefix(left[::-1], right[::-1]), most)
