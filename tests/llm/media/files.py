"""The smallest files of each type."""

from __future__ import annotations

import zlib

from repoagent.llm.media import Media, media_of
from repoagent.llm.model import Message, Part, Request


def png(width: int = 30, height: int = 20, *, noise: int = 0) -> bytes:
    """`noise` is the number of unnecessary bytes."""
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    chunks = [(b"IHDR", head), (b"tEXt", b"Note\0" + b"IEND" * (noise // 4)), (b"IDAT", zlib.compress(b"\0"))]
    body = b"\x89PNG\r\n\x1a\n"
    for name, data in [*chunks, (b"IEND", b"")]:
        body += len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
    return body


def jpeg() -> bytes:
    return b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01" + bytes(9) + b"\xff\xd9"


def gif() -> bytes:
    return b"GIF89a\x1e\0\x14\0\0\0\0;"


def webp() -> bytes:
    return b"RIFF\x0e\0\0\0WEBPVP8L\0\0\0\0\0\0"


def pdf(pages: int = 2, *, encrypted: bool = False) -> bytes:
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages),
        *[b"<< /Type /Page /Parent 2 0 R >>"] * pages,
    ]
    if encrypted:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /O (%s) /U (%s) /P -4 >>" % (b"a" * 32, b"b" * 32))
    return pdf_of(*objects, encrypted=encrypted)


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


def media(data: bytes, name: str = "shot.png") -> Media:
    found = media_of(data, name)
    assert found is not None
    return found


def showing(*shown: Media, words: str = "what is it?", cache: bool = False) -> Request:
    """A request with these attached, each with a name before it."""
    parts = [Part(f"{one.name}:\n", one.name, cache=cache, media=one) for one in shown]
    return Request((Part("You look."),), (Message("user", (*parts, Part(words, "request"))),), key="k")
