"""What a file is by its first bytes, whatever it is called. Pure functions."""

from __future__ import annotations

from repoagent.llm.media.media import PDF, MediaType

IMAGE = "convert it to PNG or JPEG first"
_OFFICE = "save it as PDF or as text first"
_SOUND = "only text, images and PDFs can be sent"
_ARCHIVE = "unpack it and name the files in it"

_OURS: tuple[tuple[bytes, MediaType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"II*\0", "a TIFF image", IMAGE),
    (b"MM\0*", "a TIFF image", IMAGE),
    (b"\0\0\1\0", "an icon (ICO)", IMAGE),
    (b"8BPS", "a Photoshop image", IMAGE),
    (b"\xff\x0a", "a JPEG XL image", IMAGE),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image", IMAGE),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image", IMAGE),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document", _OFFICE),
    (b"\x1f\x8b", "compressed (gzip)", _ARCHIVE),
    (b"BZh", "compressed (bzip2)", _ARCHIVE),
    (b"\xfd7zXZ\0", "compressed (xz)", _ARCHIVE),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd)", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)", _ARCHIVE),
    (b"\x1a\x45\xdf\xa3", "a video", _SOUND),
    (b"OggS", "sound or video", _SOUND),
    (b"fLaC", "sound", _SOUND),
    (b"ID3", "sound", _SOUND),
)
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF = (b"avif", b"avis")
_BMP_HEADERS = (
    12,
    40,
    52,
    56,
    64,
    108,
    124,
)  # bytes of the second header, which tells BMP from a text with "BM"
_TEXT_LIKE = (b"BZh", b"ID3", b"OggS", b"fLaC", b"8BPS")  # letters, with which a text may begin too


def type_of(data: bytes) -> MediaType | None:
    """The type of an image or PDF that can be sent; None for anything else."""
    for magic, kind in _OURS:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return PDF if data[:16].lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-") else None


def foreign(data: bytes) -> tuple[str, str] | None:
    """For the bytes of a known kind that no model is sent: what that is ("a TIFF image"), and what to do; else None."""
    for magic, what, advice in _FOREIGN:
        if data.startswith(magic) and (magic not in _TEXT_LIKE or _has_controls(data)):
            return what, advice
    if data[4:8] == b"ftyp":
        return _boxed(data[8:12])
    if data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "a BMP image", IMAGE
    if data.startswith(b"PK\x03\x04"):
        office = any(
            part in data[:4096] for part in (b"[Content_Types].xml", b"word/", b"xl/", b"opendocument")
        )
        return ("an Office document", _OFFICE) if office else ("an archive (ZIP)", _ARCHIVE)
    if data[:4] == b"RIFF" and data[8:12] in (b"WAVE", b"AVI "):
        return ("sound" if data[8:12] == b"WAVE" else "a video"), _SOUND
    return None


def _boxed(brand: bytes) -> tuple[str, str]:
    if brand in _HEIC:
        return "a HEIC image", IMAGE
    return ("an AVIF image", IMAGE) if brand in _AVIF else ("a video", _SOUND)


def _has_controls(data: bytes) -> bool:
    return any(byte < 9 for byte in data[:512])
