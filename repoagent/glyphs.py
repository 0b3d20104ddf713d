"""One character as it is shown: how wide it is, and how to show one that can't be."""

from __future__ import annotations


def width(character: str) -> int:
    """How many columns one character takes; no tab."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def visible(character: str) -> str:
    """What stands for a character that would act on a terminal or a reader's eye: ^J, <FF>, <U+202E>."""
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as surrogateescape holds it
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"
