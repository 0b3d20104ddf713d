"""What a text is: its encoding, its line ending, its end. All that a split has to give back as it was."""

from __future__ import annotations

from typing import NamedTuple

from repoagent.split.marks import UTF8_MARK, WIDE_MARKS

_MARKS = {UTF8_MARK: "utf-8", **WIDE_MARKS}
_LOOK = 8000  # bytes; as many as git looks at to tell text from binary


class Facts(NamedTuple):
    """`encoding` and `line_ending` are those of `IndexedSource`; `final_newline` is whether the last line is ended."""

    encoding: str
    bom: bool
    line_ending: str
    final_newline: bool


def facts_of(data: bytes) -> Facts:
    """The facts of a file with the bytes `data`."""
    encoding, bom = _encoding(data)
    text = data
    if encoding.startswith(("utf-16", "utf-32")):
        text = data.decode(encoding, "replace").encode("utf-8", "replace")
    crlf = text.count(b"\r\n")
    counts = {"lf": text.count(b"\n") - crlf, "crlf": crlf, "cr": text.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    ending = "none" if not used else used[0] if len(used) == 1 else "mixed"
    return Facts(encoding, bom, ending, text.endswith((b"\n", b"\r")))


def _encoding(data: bytes) -> tuple[str, bool]:
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            if name == "utf-32-le" and len(data) % 4:
                continue  # UTF-16 whose first character is NUL
            return name, True
    if b"\0" in data[:_LOOK]:
        return "binary", False
    try:
        data.decode()
    except UnicodeDecodeError:
        return "unknown-8bit", False
    return "utf-8", False
