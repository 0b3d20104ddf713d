"""Output as it stands on the screen at the end: progress bars drawn over, colours and cursor movements taken away."""

from __future__ import annotations

import re

from repoagent import glyphs

_TOKEN = re.compile(
    r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])"  # a control sequence
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # a title, a link
    r"|\x1b[ -/]*[0-~]?"
    r"|[\r\b]"
    r"|[^\x1b\r\b]+"
)
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def drawn(line: str) -> str:
    """One line, without its newline, as a terminal shows it when it has been printed."""
    line = line.rstrip("\r") if line.endswith("\r") else line
    if not _ACTS.search(line):
        return line
    shown: list[str] = []
    at = 0
    for token in _TOKEN.finditer(line):
        text = token[0]
        if text == "\r" or (token[2] == "G" and token[1] in {"", "0", "1"}):
            at = 0
        elif text == "\b":
            at = max(0, at - 1)
        elif token[2] == "K":
            if token[1] == "2":
                shown[:] = " " * at
            elif token[1] in {"", "0"}:
                del shown[at:]
        elif not text.startswith("\x1b"):
            shown[at : at + len(text)] = text
            at += len(text)
    return _ACTS.sub(lambda match: glyphs.visible(match[0]), "".join(shown)).rstrip(" ")
