"""How a small model is shown a file, or a part of a long one: in a plain fence, as such models know code best."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.edit.briefing.context import named, shown
from repoagent.edit.small.windows import Window
from repoagent.repo import Source


def whole_text(source: Source) -> str:
    """The block of a file that is asked for as a whole."""
    if source.data is None:
        return f"File {named(source.path)} does not exist yet: create it.\n\n"
    return f"{named(source.path)}:\n{_fenced(_language(source), shown(source.data))}\n"


def excerpt(source: Source, windows: Sequence[Window], others: Sequence[Window] = ()) -> str:
    """The blocks of a file of which only `windows` are to be edited; `others` are for reading.

    No outline, no line numbers, not the head of the file: Qwen2.5-Coder-1.5B takes whatever stands near the part for
    code to write, and makes up the bodies of what an outline lists.
    """
    lines = shown(source.data or b"").removesuffix("\n").split("\n")
    name, language = named(source.path), _language(source)
    said = []
    for other in others:
        what = " and ".join(other.names) or "lines"
        said.append(f"{what} of {name}, only to read:\n{_fenced(language, _part(lines, other))}")
    for window in windows:
        what = " and ".join(window.names) or "this part"
        said.append(f"{what} of {name}:\n{_fenced(language, _part(lines, window))}")
    return "\n".join(said) + "\n"


def _part(lines: Sequence[str], window: Window) -> str:
    return _joined(lines[window.first - 1 : window.last])


def shown_text(source: Source, windows: Sequence[Window]) -> str:
    """What of a file is to be written anew."""
    if not windows or source.data is None:
        return shown(source.data or b"")
    lines = shown(source.data).split("\n")
    return "".join(_joined(lines[window.first - 1 : window.last]) for window in windows)


def fence_mark(text: str) -> str:
    """What a fence around this text is made of, so that no line of it ends the fence."""
    starts = re.findall(r"^ *(`{3,}|~{3,})", text, re.MULTILINE)
    if not any(run.startswith("`") for run in starts):
        return "```"
    if not any(run.startswith("~") for run in starts):
        return "~~~"
    return "`" * (1 + max(map(len, starts)))


def _language(source: Source) -> str:
    """What a fence says; of a script for any shell not "bash", or a model writes what only bash knows."""
    from repoagent.split import language_of

    data = source.data or b""
    found = language_of(source.path, data) or ""
    first = data.split(b"\n", 1)[0]
    return "sh" if found == "bash" and not re.search(rb"bash|zsh|ksh", first) else found


def _fenced(language: str, text: str) -> str:
    mark = fence_mark(text)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{mark}{language}\n{text}{end}{mark}\n"


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
