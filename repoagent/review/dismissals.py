"""Dismissed and accepted findings are not shown again: by id, by a comment in the code, by a commit trailer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile
from repoagent.review.finding import Finding, Location, find_in, read_last, reviews_dir
from repoagent.review.untrusted import DISMISSED, is_foreign, tree_of
from repoagent.storage import jsonl
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree

VERSION = 1
REASON = 500  # characters
ALL = "*"

State = Literal["dismissed", "accepted", "open"]

COMMENT = re.compile(rb"repoagent:[ \t]*ignore[ \t]*\[([^\]\n]{1,200})\]", re.IGNORECASE)
_TRAILER = re.compile(r"(?im)^Review-Ignore:[ \t]*([\w*,-]+)(?:[ \t]+(\S.*?))?[ \t]*\r?$")


@dataclass(frozen=True)
class Verdict:
    """A user's decision on one finding. `time` is ISO 8601."""

    id: str
    state: State
    rule: str
    path: str
    title: str
    reason: str
    time: str


def dismissed_path(layout: Layout) -> Path:
    return reviews_dir(layout) / "dismissed.jsonl"


def dismiss(layout: Layout, finding_id: str, *, reason: str = "") -> Finding:
    """Record that a finding of the last report is wrong or does not matter; `finding_id` may be abbreviated.

    Raises UsageError if the last report has no such finding, Busy or Refused if the record cannot be written.
    """
    return _record(layout, finding_id, "dismissed", reason)


def accept(layout: Layout, finding_id: str, *, reason: str = "") -> Finding:
    """Record that a finding is right and known. Raises as `dismiss`."""
    return _record(layout, finding_id, "accepted", reason)


def reopen(layout: Layout, finding_id: str, *, reason: str = "") -> Finding:
    """Show a finding again. Raises as `dismiss`."""
    return _record(layout, finding_id, "open", reason)


def _record(layout: Layout, finding_id: str, state: State, reason: str) -> Finding:
    finding = find_in(read_last(layout), finding_id)
    ensure(layout)
    record = {
        "version": VERSION,
        "id": finding.id,
        "state": state,
        "rule": finding.rule,
        "path": finding.location.path,
        "title": finding.title,
        "reason": mask(" ".join(reason.split())[:REASON]),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    jsonl.append_record(dismissed_path(layout), record)
    return finding


def verdicts(layout: Layout, *, warn: Warn = to_stderr) -> dict[str, Verdict]:
    """The latest verdict on each finding by its id, the oldest first, without those of a newer version."""
    return _latest(jsonl.read_records(dismissed_path(layout), warn=warn))


def parse_verdicts(data: bytes) -> dict[str, Verdict]:
    """The same from the bytes of a dismissals file."""
    return _latest(record for line in data.split(b"\n") if (record := jsonl.record_of(line)) is not None)


def verdicts_on(
    change: Change, worktree: WorkTree, layout: Layout, *, warn: Warn = to_stderr
) -> dict[str, Verdict]:
    """The verdicts that count for `change`: without those that a foreign change itself adds."""
    found = verdicts(layout, warn=warn)
    if not is_foreign(change) or (texts := tree_of(change, worktree).texts(DISMISSED)) is None:
        return found
    before, after = map(parse_verdicts, texts)
    own = {name: one for name, one in found.items() if after.get(name) != one}
    return {**before, **own}


def _latest(records: Iterable[dict[str, Any]]) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for record in records:
        state = record.get("state")
        texts = {name: record.get(name, "") for name in ("id", "rule", "path", "title", "reason", "time")}
        if record.get("version") != VERSION or not all(isinstance(text, str) for text in texts.values()):
            continue
        if state in ("dismissed", "accepted", "open") and texts["id"]:
            found.pop(texts["id"], None)
            found[texts["id"]] = Verdict(state=state, **texts)
    return found


def split_dismissed(
    change: Change, findings: Sequence[Finding], known: Mapping[str, Verdict]
) -> tuple[list[Finding], list[Finding]]:
    """The open findings, and those dismissed by a verdict in `known`, by a comment at their lines, or by a trailer of
    the change's message. Trailers of a foreign change do not count, nor do comments that it adds."""
    settled = {one.id for one in known.values() if one.state != "open"}
    trailers = [] if is_foreign(change) else ignored(change.message)
    texts = _Texts(change)
    kept: list[Finding] = []
    dismissed: list[Finding] = []
    for finding in findings:
        gone = (
            finding.id in settled
            or any(_names(rules, finding.rule) and _is_about(path, finding) for rules, path in trailers)
            or any(_names(rules, finding.rule) for rules in texts.comments(finding.location))
        )
        (dismissed if gone else kept).append(finding)
    return kept, dismissed


def ignored(message: str) -> list[tuple[str, str]]:
    """The rules and the path ("" for the whole change) of each `Review-Ignore` trailer."""
    return [(rules, path or "") for rules, path in _TRAILER.findall(message)]


def _names(rules: str, rule: str) -> bool:
    return bool({ALL, rule} & {name.strip().lower() for name in rules.split(",")})


def _is_about(path: str, finding: Finding) -> bool:
    """Whether a trailer's path is the finding's path, a folder above it, or its key."""
    here = finding.location.path
    return path in ("", here, finding.key) or here.startswith(path.rstrip("/") + "/")


class _Texts:
    """The lines of the files of a change, read once and on demand."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.files: dict[tuple[str, bool], ChangedFile] = {}
        for file in change.files:
            self.files[file.path, False] = file
            self.files[file.old_path or file.path, True] = file
            self.files.setdefault((file.path, True), file)
        self.known: dict[tuple[str, bool], list[bytes]] = {}
        self.foreign = is_foreign(change)

    def comments(self, place: Location) -> list[str]:
        """The rules that comments on the lines of `place`, or on the line before, dismiss."""
        if place.start < 1:
            return []
        lines = self.lines(place.path, old=place.old)
        near = lines[max(0, place.start - 2) : place.end]
        return [match[1].decode("utf-8", "replace") for line in near for match in COMMENT.finditer(line)]

    def lines(self, path: str, *, old: bool) -> list[bytes]:
        if (path, old) not in self.known:
            file = self.files.get((path, old))
            read = self.change.read_old if old else self.change.read_new
            lines = ((read(file) or b"") if file else b"").split(b"\n")
            if file and self.foreign and not old:
                for hunk in self.change.read_lines(file):
                    lines[hunk.new - 1 : hunk.new - 1 + len(hunk.added)] = [b""] * len(hunk.added)
            self.known[path, old] = lines
        return self.known[path, old]
