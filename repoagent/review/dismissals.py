"""Hide dismissed and accepted findings: by id, by a comment in the code or by a commit trailer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Location, find_in, read_last, reviews_dir
from repoagent.review.untrusted_change import DISMISSED, is_foreign, texts_of
from repoagent.storage import json_files
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree

VERSION = 1
REASON = 500  # characters
ALL = "*"

State = Literal["dismissed", "accepted", "open"]

COMMENT = re.compile(rb"repoagent:[ \t]*ignore[ \t]*\[([^\]\n]{1,200})\]", re.IGNORECASE)
_TRAILER = re.compile(r"(?im)^Review-Ignore:[ \t]*([\w*,-]+)(?:[ \t]+(\S.*?))?[ \t]*\r?$")


class Dismissal(NamedTuple):
    """A user's decision on one finding. `time` is ISO 8601."""

    id: str
    state: State
    rule: str
    path: str
    title: str
    reason: str
    time: str


def dismissed_path(layout: Layout) -> Path:
    """The file with the verdicts, in JSON Lines format."""
    return reviews_dir(layout) / "dismissed.jsonl"


def record_verdict(layout: Layout, finding_id: str, state: State, *, reason: str = "") -> Finding:
    """Record a verdict on a finding of the last report; the verdict "open" shows the finding again.

    `finding_id` may be abbreviated. Raises UsageError if there is no such finding, Busy or Refused if the record cannot
    be written.
    """
    from repoagent.storage.secrets import mask

    finding = find_in(read_last(layout), finding_id)
    ensure_root(layout)
    reason = mask(" ".join(reason.split())[:REASON])
    verdict = Dismissal(
        finding.id, state, finding.rule, finding.location.path, finding.title, reason, json_files.timestamp()
    )
    json_files.append_record(dismissed_path(layout), {"version": VERSION, **verdict._asdict()})
    return finding


def verdicts(layout: Layout, *, warn: Warn = to_stderr) -> dict[str, Dismissal]:
    """Return the latest verdict on each finding by the finding's id, ordered from oldest to newest."""
    return _latest(json_files.read_records(dismissed_path(layout), warn=warn))


def parse_verdicts(data: bytes) -> dict[str, Dismissal]:
    """Like `verdicts`, but from the bytes of a dismissals file."""
    return _latest(filter(None, map(json_files.record_of, data.split(b"\n"))))


def verdicts_on(
    change: Change, worktree: WorkTree, layout: Layout, *, warn: Warn = to_stderr
) -> dict[str, Dismissal]:
    """The verdicts that apply to `change`: all except those that a foreign change itself adds."""
    saved = verdicts(layout, warn=warn)
    if not is_foreign(change) or (texts := texts_of(change, worktree, DISMISSED)) is None:
        return saved
    before, after = map(parse_verdicts, texts)
    return {**before, **{key: verdict for key, verdict in saved.items() if after.get(key) != verdict}}


def _latest(records: Iterable[dict[str, Any]]) -> dict[str, Dismissal]:
    latest: dict[str, Dismissal] = {}
    for record in records:
        texts = [record.get(name, "") for name in Dismissal._fields]
        if record.get("version") != VERSION or not all(isinstance(text, str) for text in texts):
            continue
        verdict = Dismissal(*texts)
        if verdict.state in ("dismissed", "accepted", "open") and verdict.id:
            latest.pop(verdict.id, None)
            latest[verdict.id] = verdict
    return latest


def split_dismissed(
    change: Change, findings: Sequence[Finding], known: Mapping[str, Dismissal]
) -> tuple[list[Finding], list[Finding]]:
    """Return the open findings and the dismissed ones.

    A finding is dismissed by a verdict in `known`, by a comment at its lines, or by a trailer in the change's message.
    Trailers of a foreign change do not count, nor do comments that it adds.
    """
    hidden_ids = {verdict.id for verdict in known.values() if verdict.state != "open"}
    trailers = [] if is_foreign(change) else ignore_trailers(change.message)

    @cache
    def lines_of(path: str, *, old: bool) -> list[bytes]:
        matches = [file for file in change.files if old and file.old_path == path]
        matches += [file for file in change.files if file.path == path]
        if not matches:
            return []
        file = matches[0]
        lines = ((change.texts.old(file) if old else change.texts.new(file)) or b"").split(b"\n")
        for hunk in change.texts.lines(file) if is_foreign(change) and not old else ():
            lines[hunk.new - 1 : hunk.new - 1 + len(hunk.added)] = [b""] * len(hunk.added)
        return lines

    def comments(location: Location) -> list[str]:
        """Return the rules that comments on the lines of `location`, or on the line before, dismiss."""
        if location.start < 1:
            return []
        nearby = lines_of(location.path, old=location.old)[max(0, location.start - 2) : location.end]
        return [match[1].decode("utf-8", "replace") for line in nearby for match in COMMENT.finditer(line)]

    open_findings: list[Finding] = []
    dismissed: list[Finding] = []
    for finding in findings:
        path, rules = finding.location.path, comments(finding.location)
        for names, target in trailers:
            if target in ("", path, finding.key) or path.startswith(target.rstrip("/") + "/"):
                rules.append(names)
        hidden = {name.strip().lower() for names in rules for name in names.split(",")}
        is_dismissed = finding.id in hidden_ids or ALL in hidden or finding.rule in hidden
        (dismissed if is_dismissed else open_findings).append(finding)
    return open_findings, dismissed


def ignore_trailers(message: str) -> list[tuple[str, str]]:
    """The rules and the path ("" for the whole change) of each `Review-Ignore` trailer."""
    return [(rules, path or "") for rules, path in _TRAILER.findall(message)]
