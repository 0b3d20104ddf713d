"""The smallest files of each type."""

from __future__ import annotations

import zlib

from repoagent.llm.media import Media, media_of
from repoagent.llm.model import Message, Part, Request


def png(width: int = 30, height: int = 20, *, noise: int = 0) -> bytes:
    """`noise` is the number of unnecessary bytes."""
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    chunks = [(b"IHDR", head), (b"tEXt", b"Note\0" + b"IEND" * (noise // 4)), (b"IDAT", zlib.compress(b"\0"))]
    body = b"".join(_chunk(name, data) for name, data in [*chunks, (b"IEND", b"")])
    return b"\x89PNG\r\n\x1a\n" + body


def _chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def jpeg() -> bytes:
    return b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01" + bytes(9) + b"\xff\xd9"


def gif() -> bytes:
    return b"GIF89a\x1e\0\x14\0\0\0\0;"


def webp() -> bytes:
    return b"RIFF\x0e\0\0\0WEBPVP8L\0\0\0\0\0\0"


def pdf(pages: int = 2, *, packed: bool = False, encrypted: bool = False) -> bytes:
    """`packed`: the pages are in a compressed object stream, as in PDF 1.5 and later."""
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages),
        *[b"<< /Type /Page /Parent 2 0 R >>"] * pages,
    ]
    if encrypted:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /O (%s) /U (%s) /P -4 >>" % (b"a" * 32, b"b" * 32))
    return _packed_pdf(objects) if packed else pdf_of(*objects, encrypted=encrypted)


def pdf_of(*objects: bytes, encrypted: bool = False) -> bytes:
    """A PDF of these objects; the first one is its catalog, the last one describes the encryption."""
    body, table = b"%PDF-1.7\n%\xe2\xe3\n", b"0000000000 65535 f \n"
    for number, one in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(body)
        body += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    count = len(objects) + 1
    trailer = b"<< /Size %d /Root 1 0 R " % count
    trailer += b"/Encrypt %d 0 R /ID [(a) (a)] >>" % len(objects) if encrypted else b">>"
    return body + b"xref\n0 %d\n%strailer %s\nstartxref\n%d\n%%%%EOF\n" % (count, table, trailer, len(body))


def _packed_pdf(objects: list[bytes]) -> bytes:
    head, text = b"", b""
    for number, one in enumerate(objects, 1):
        head += b"%d %d " % (number, len(text))
        text += one + b"\n"
    count = len(objects)
    start = b"%PDF-1.7\n"
    packed = b"/Type /ObjStm /N %d /First %d" % (count, len(head))
    body = start + _stream(count + 1, packed, head + text)
    rows = [
        b"\0\0\0\0\0\0",
        *(b"\2" + (count + 1).to_bytes(3, "big") + n.to_bytes(2, "big") for n in range(count)),
    ]
    rows += [b"\1" + at.to_bytes(3, "big") + b"\0\0" for at in (len(start), len(body))]
    table = b"/Type /XRef /Size %d /W [1 3 2] /Root 1 0 R" % (count + 3)
    return body + _stream(count + 2, table, b"".join(rows)) + b"startxref\n%d\n%%%%EOF\n" % len(body)


def _stream(number: int, words: bytes, data: bytes) -> bytes:
    data = zlib.compress(data)
    head = b"%d 0 obj\n<< %s /Filter /FlateDecode /Length %d >>\nstream\n" % (number, words, len(data))
    return head + data + b"\nendstream\nendobj\n"


def media(data: bytes, name: str = "shot.png") -> Media:
    found = media_of(data, name)
    assert found is not None
    return found


def showing(*shown: Media, words: str = "what is it?", cache: bool = False) -> Request:
    """A request with these attached, each with a name before it."""
    parts = [Part(f"{one.name}:\n", one.name, cache=cache, media=one) for one in shown]
    return Request((Part("You look."),), (Message("user", (*parts, Part(words, "request"))),), key="k")
