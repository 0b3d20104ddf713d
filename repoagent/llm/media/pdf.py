"""How many pages a PDF has, roughly, and whether it can be read at all. Pure functions of bytes, without a library."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from repoagent.llm.media.images import Broken

_TAIL = 2_048  # bytes: the mark of the end stands in them; after it there may be something of a mail
_MOST = 64_000_000  # bytes of all object streams together, unpacked: a small file may hold very large ones
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_TREE = re.compile(rb"/Type\s*/Pages(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,7})(?!\d)")
_LOCKED = re.compile(rb"/Encrypt\s+\d+\s+\d+\s+R(?![A-Za-z])")
_PACKED = re.compile(rb"/Type\s*/ObjStm(?![A-Za-z])")
_STREAM = re.compile(rb"stream\r?\n")
_NEAR = 1_000  # bytes around a name, in which the rest of its object is looked for


def page_count(data: bytes) -> int:
    """The pages, as the page tree says or as they are found; 0 where neither can be. A file that was saved several
    times may have more in it than it shows.

    Raises Broken for a file that is encrypted or cut.
    """
    if b"%%EOF" not in data[-_TAIL:]:
        raise Broken("ends too early: it was cut, or is still being written")
    if _LOCKED.search(data):
        raise Broken("is encrypted: take the password off first (qpdf --decrypt IN.pdf OUT.pdf)")
    texts = [data, *_unpacked(data)]
    found = sum(len(_PAGE.findall(text)) for text in texts)
    said = max((count for text in texts for count in _counts(text)), default=0)
    return min(found, said) if found and said else found or said


def _counts(text: bytes) -> Iterator[int]:
    """What the nodes of page trees say of themselves."""
    for node in _TREE.finditer(text):
        before = max(node.start() - _NEAR, 0)
        start = max(text.rfind(b"obj", before, node.start()), before)
        end = text.find(b"endobj", node.end(), node.end() + _NEAR)
        for count in _COUNT.finditer(text, start, node.end() + _NEAR if end < 0 else end):
            yield int(count[1])


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The object streams, in which a file of PDF 1.5 and later may have its pages."""
    left, end = _MOST, 0
    for name in _PACKED.finditer(data):
        start = _STREAM.search(data, name.end(), name.end() + _NEAR) if name.start() >= end else None
        if start is None:  # it has none, or is itself a part of one
            continue
        end = data.find(b"endstream", start.end())
        if end < 0 or left <= 0:
            return
        try:
            text = zlib.decompressobj().decompress(data[start.end() : end], left)
        except zlib.error:  # packed in another way, or broken: what else there is has to do
            continue
        left -= len(text)
        yield text
