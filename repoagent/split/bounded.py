"""Scanners that write past the buffer for their state, held within it.

tree-sitter gives the external scanner of a grammar 1,024 bytes to write its state to. That of YAML writes 4 bytes for
each open block and stops two bytes too late at the 254th; that of Python writes one byte too many at 511 open blocks
inside a string, that of Ruby two among its heredocs. Any of them ends the process, or worse. Text that could come to
this is parsed with a copy of the grammar whose scanner writes to a larger buffer first.
"""

from __future__ import annotations

import ctypes
import re
import threading
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from repoagent.split.languages import capsule_for
from repoagent.split.long_tail import CAPSULE, capsule_of

if TYPE_CHECKING:
    import tree_sitter

_BUFFER = 1024  # TREE_SITTER_SERIALIZATION_BUFFER_SIZE
_SCRATCH = 1 << 16
# Each of these opens at most one block of YAML, also where the text does not parse: 10 bytes + 4 for each.
_YAML_OPENS = re.compile(rb"[-?:](?=[\s\0]|\Z)|[|>]")
_YAML_BLOCKS = (_BUFFER - 10) // 4
# A block of Python is indented further than the one around it: 2 bytes, 255 for strings at most, 2 for each block.
_PYTHON_BLANK = re.compile(rb"(?:[ \t\f\r]|\\\r?\n){40,}")
_PYTHON_COLUMNS = (_BUFFER - 2 - 255) // 2
_TAB = 8
_RUBY_HEREDOC = re.compile(rb"<<[~-]?[\"'`\w\x80-\xff]")
# Ruby's scanner keeps the length of a heredoc's word in one byte, and reads back something else for a longer one.
_RUBY_LONG_WORD = re.compile(rb"<<[~-]?(?:\"[^\"]{256}|'[^']{256}|`[^`]{256}|[\w\x80-\xff]{256})")


class _Language(ctypes.Structure):
    """`TSLanguage` up to what has to be replaced; the same in versions 13 to 15 of tree-sitter's binary interface."""

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


class Bounded:
    """A grammar whose scanner stays within its buffer: `language`, or None where it can't be made.

    Hold `lock` during a parse; `too_deep` then says that the scanner had more to write, and the tree is of no use.
    """

    def __init__(self, language: str) -> None:
        self.lock = threading.Lock()
        self.too_deep = False
        self.language: tree_sitter.Language | None = None
        import tree_sitter

        capsule = capsule_for(language)
        size = _SIZES.get(tree_sitter.Language(capsule).abi_version) if capsule is not None else None
        if size is not None:
            self.language = tree_sitter.Language(capsule_of(self._copied(_address(capsule), size)))

    def _copied(self, address: int, size: int) -> int:
        """The address of a copy of the grammar there with another `serialize`."""
        copy = _Language.from_buffer_copy(
            ctypes.string_at(address, size).ljust(ctypes.sizeof(_Language), b"\0")
        )
        write = ctypes.PYFUNCTYPE(ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(copy.serialize)
        scratch = ctypes.create_string_buffer(_SCRATCH)
        room, move = ctypes.addressof(scratch), ctypes.memmove

        def serialize(scanner: int, buffer: int) -> int:
            written: int = write(scanner, room)
            if written > _BUFFER:
                self.too_deep = True
                return 0  # the state at the beginning of a text
            move(buffer, room, written)
            return written

        bounded = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(serialize)
        copy.serialize = ctypes.cast(bounded, ctypes.c_void_p).value
        self._kept = copy, scratch, bounded  # the parser has their addresses
        return ctypes.addressof(copy)


@cache
def bounded(language: str) -> Bounded:
    """The bounded grammar of one of the languages that `may_overflow` knows."""
    return Bounded(language)


def is_unreadable(text: bytes, language: str) -> bool:
    """Whether a scanner can't even keep what `text` holds, so that it must not be parsed at all."""
    return language == "ruby" and _RUBY_LONG_WORD.search(text) is not None


def may_overflow(text: bytes, language: str) -> bool:
    """Whether `text` could nest so deeply that the scanner of its grammar writes past its buffer."""
    if language == "yaml":
        return sum(1 for _ in islice(_YAML_OPENS.finditer(text), _YAML_BLOCKS + 1)) > _YAML_BLOCKS
    if language == "python":
        return any(
            len(run[0]) + (_TAB - 1) * run[0].count(b"\t") > _PYTHON_COLUMNS
            for run in _PYTHON_BLANK.finditer(text)
        )
    return language == "ruby" and _RUBY_HEREDOC.search(text) is not None


def _address(capsule: object) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    found: int = pointer(capsule, CAPSULE)
    return found
