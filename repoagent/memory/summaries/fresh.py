"""What prompts get of the summaries: those that still say what stands in the file."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.history.block import plain
from repoagent.memory.summaries.ask import WORDS, clipped, key_of
from repoagent.memory.summaries.parts import ONE_CALL, File, read_record, unchanged
from repoagent.memory.summaries.shelf import folder_of
from repoagent.memory.summaries.store import Summary, read_summary
from repoagent.store import Layout

FRESH = 0.9  # of the bytes that were summarized, or the summary is not shown
_LINE = 200  # characters of what a file is for


def summary_block(layout: Layout, path: str, data: bytes) -> str:
    """What is known of the file `path` with the bytes `data`, as a prompt quotes it; "" where there is nothing that is
    still good. What can't be read is left out in silence: a prompt is whole without it."""
    found = _fresh(layout, path, data)
    if found is None:
        return ""
    summary, changed = found
    by = "corrected by a person" if summary.edited else f"by {summary.model or 'a model'}"
    since = f", of an older text: {changed}" if changed else ""
    return f"Summary of the file ({by}{since}):\n{clipped(summary.text, WORDS * 2, 10_000)}\n"


def may_have_purpose(layout: Layout, path: str, size: int) -> bool:
    """Whether a file of `size` bytes is worth being read for its `purpose`."""
    if size <= ONE_CALL:
        return True
    try:
        last = read_record(folder_of(layout), path, _silent)
    except Refused:
        return False
    return last is not None and last.parts[-1].end == size


def purpose(layout: Layout, path: str, data: bytes) -> str:
    """What the file is for, in a line: the beginning of its summary, if that is of this very text; else ""."""
    found = _fresh(layout, path, data)
    if found is None or found[1]:
        return ""
    line = " ".join(found[0].text.split())
    end = line.find(". ")
    return plain(line if end < 0 else line[: end + 1], _LINE)


def _fresh(layout: Layout, path: str, data: bytes) -> tuple[Summary, str] | None:
    """The summary of a file, and how much of what it was made of has changed since, in words."""
    folder = folder_of(layout)
    if not data or not folder.is_dir():
        return None
    file = File(path, data)
    try:
        last = read_record(folder, path, _silent)
        if last is not None and last.sha256 == file.sha256:
            found = read_summary(folder, last.key, _silent)
            if found is not None:
                return found, ""
        found = read_summary(folder, key_of("whole", WORDS, file.sha256), _silent)  # it had another name
        if found is not None or last is None or len(last.parts) == 1:
            return None if found is None else (found, "")
        same = unchanged(last, data)
        if sum(last.parts[number].size for number in same) < FRESH * max(len(data), last.parts[-1].end):
            return None
        found = read_summary(folder, last.key, _silent)
    except Refused:
        return None
    count = len(last.parts)
    changed = count - len(same)
    what = f"{changed} of {count} parts changed since" if changed else "something was added since"
    return None if found is None else (found, what)


def _silent(sentence: str) -> None:
    """What is broken is said when somebody asks for a summary."""
