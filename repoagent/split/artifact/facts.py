"""What a text is: its encoding, its line ending, its end. All that a split has to give back as it was."""

from __future__ import annotations

from typing import NamedTuple

from repoagent.split.marks import UTF8_MARK, WIDE_MARKS

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
    crlf = data.count(b"\r\n")
    counts = {"lf": data.count(b"\n") - crlf, "crlf": crlf, "cr": data.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    ending = "none" if not used else used[0] if len(used) == 1 else "mixed"
    return Facts(encoding, bom, ending, data.endswith((b"\n", b"\r")))


def wide_encoding(data: bytes) -> str:
    """ "UTF-16" or "UTF-32" for a text in one of these, by its byte-order mark or where the NUL bytes of plain letters
    stand; else ""."""
    for mark, name in WIDE_MARKS.items():
        if data.startswith(mark):
            return name
    sample = data[: _LOOK - _LOOK % 4]
    nuls = [sample[n::4].count(0) * 4 / max(len(sample), 1) for n in range(4)]
    if min(nuls[0] + nuls[2], nuls[1] + nuls[3]) < 0.02 and sum(nuls) >= 1.4:
        return "UTF-16"
    return "UTF-32" if min(nuls[0], nuls[3]) < 0.05 and sum(nuls) > 2.5 else ""


def _encoding(data: bytes) -> tuple[str, bool]:
    if data.startswith(UTF8_MARK):
        return "utf-8", True
    if b"\0" in data[:_LOOK]:
        return "binary", False
    try:
        data.decode()
    except UnicodeDecodeError:
        return "unknown-8bit", False
    return "utf-8", False
