"""The findings of a review, the report that contains them, and the saved last report.

The last report is saved as JSON, so that later commands can refer to a finding by its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr

if TYPE_CHECKING:
    from pathlib import Path


class Level(IntEnum):
    """How much a finding matters."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Location(NamedTuple):
    """Lines `start` to `end` (from 1, inclusive) of the file after the change; 0 and 0 for the whole file.

    `path` is relative to the top, decoded with os.fsdecode. `old` means lines of the file before the change.
    """

    path: str
    start: int = 0
    end: int = 0
    old: bool = False


class Evidence(NamedTuple):
    """A commit that supports a finding."""

    commit: str  # full object name
    time: int  # seconds since 1970, of the committer
    subject: str


class Suggestion(NamedTuple):
    """Replace the lines at `location` by `text`: whole lines, each with its line ending; "" removes them."""

    location: Location
    text: str


class Finding(NamedTuple):
    """A problem that a reviewer should look at. All texts are plain, without markup or control characters.

    `rule` is a stable id of `rules.RULES`. `key` identifies the finding among others of its rule, independent of line
    numbers: the missing partner, the symbol, the quoted code. `quote` is the code at `location`, whole lines.
    """

    rule: str
    level: Level
    title: str  # one sentence on one line
    location: Location
    body: str = ""  # the problem and how to reproduce it, or how it was computed; may have several paragraphs
    key: str = ""
    quote: str = ""
    evidence: tuple[Evidence, ...] = ()
    suggestion: Suggestion | None = None
    confidence: float | None = None  # 0 to 1

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, stable if the lines of the finding move."""
        from hashlib import sha256  # OpenSSL takes 10 ms to load, and most reviews find nothing

        parts = (self.rule, self.location.path, self.key or " ".join(self.quote.split()) or self.title)
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True, repr=False)
class Report:
    """The result of one review.

    `findings` are in the order in which they are shown: by level, then by file and line. `unseen` has a phrase for
    each part of the change that was not reviewed; `notes` are further sentences for the user.
    """

    title: str  # "the staged change", "main..topic (3 commits)"
    files: int
    findings: Sequence[Finding] = ()
    dismissed: Sequence[Finding] = ()
    dropped: int = 0  # findings of a model that could not be verified
    unseen: Sequence[str] = ()
    notes: Sequence[str] = ()
    model: str = ""  # "" if no model was asked
    tokens: int = 0
    cost: float | None = None  # US dollars; None if unknown
    base: str = ""  # commit before the change; "" for none
    head: str = ""  # commit after the change; "" for the index or the work tree
    by_file: dict[str, bytes] = field(default_factory=dict)  # the new texts of files with findings
    rules: tuple[str, ...] = ()  # the applied rules, without those of a model

    def worst(self) -> Level | None:
        """The highest level of the open findings; None without any."""
        return max((finding.level for finding in self.findings), default=None)


VERSION = 2  # of the saved last report
LOG_VERSION = 1
LEAST = 4  # characters of an id that identify a finding
MOST = 500  # findings of a report that are saved


class LastReport(NamedTuple):
    """The saved last report; `findings` includes the dismissed ones."""

    title: str
    base: str
    head: str
    findings: tuple[Finding, ...]


def reviews_dir(layout: Layout) -> Path:
    """The folder of saved reports, dismissals and cached answers."""
    return layout.root / "reviews"


def last_path(layout: Layout) -> Path:
    """The file of the last report, in JSON."""
    return reviews_dir(layout) / "last.json"


def read_log(layout: Layout, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """A record of each past review, the oldest first. Skips records of a newer version."""
    from repoagent.storage import json_files

    records = json_files.read_records(reviews_dir(layout) / "log.jsonl", warn=warn)
    return (record for record in records if record.get("version") == LOG_VERSION)


def save_last(layout: Layout, report: Report) -> None:
    """Save `report` as the last one and append a record to the log. Raises Refused or Busy if it cannot be written."""
    from repoagent.storage import json_files

    ensure(layout)
    saved = [as_data(finding) for finding in [*report.findings, *report.dismissed][:MOST]]
    last_report = {"title": report.title, "base": report.base, "head": report.head, "findings": saved}
    json_files.write_document(last_path(layout), last_report, version=VERSION)
    levels = [finding.level for finding in report.findings]
    record = {
        "version": LOG_VERSION,
        "time": json_files.now(),
        "title": report.title,
        "head": report.head,
        "files": report.files,
        **{f"{level.word}s": levels.count(level) for level in Level},
        "dismissed": len(report.dismissed),
        "dropped": report.dropped,
        "model": report.model,
        "tokens": report.tokens,
        "cost": report.cost,
    }
    json_files.append_record(reviews_dir(layout) / "log.jsonl", record)


def read_last(layout: Layout, *, warn: Warn = to_stderr) -> LastReport | None:
    """The last report; None if there is none or it cannot be read."""
    from repoagent.storage import json_files

    value = json_files.read_document(last_path(layout), version=VERSION, warn=warn)
    if value is None:
        return None
    saved = value.get("findings")
    findings = (
        [from_data(item) for item in saved if isinstance(item, dict)] if isinstance(saved, list) else []
    )
    title, base, head = (str(value.get(name, "")) for name in ("title", "base", "head"))
    return LastReport(title, base, head, tuple(finding for finding in findings if finding is not None))


def find_in(last: LastReport | None, finding_id: str) -> Finding:
    """The finding whose id starts with `finding_id`. Raises UsageError unless there is exactly one."""
    if last is None:
        raise UsageError("there is no review yet; run `repoagent review` first")
    prefix = finding_id.strip().lower()
    if len(prefix) < LEAST:
        raise UsageError(f"finding id {finding_id!r} is too short; give at least {LEAST} characters")
    matches = {finding.id: finding for finding in reversed(last.findings) if finding.id.startswith(prefix)}
    if len(matches) > 1:
        ids = ", ".join(sorted(matches))
        raise UsageError(f"finding id {finding_id} is ambiguous ({ids}); give more characters")
    if not matches:
        raise UsageError(
            f"the last review ({last.title or 'of a change'}) has no finding {finding_id}; use an id that it printed, "
            "or run `repoagent review` again"
        )
    return matches.popitem()[1]


def as_data(finding: Finding) -> dict[str, Any]:
    """A finding as JSON data, for reports and for the saved last one."""
    location, suggestion = finding.location, None
    if finding.suggestion is not None:
        suggestion = finding.suggestion.location._asdict() | {"text": finding.suggestion.text}
        del suggestion["old"]
    return {
        "id": finding.id,
        "rule": finding.rule,
        "level": finding.level.word,
        "title": finding.title,
        "body": finding.body,
        "path": location.path,
        "start": location.start or None,
        "end": location.end or None,
        "old": location.old,
        "key": finding.key,
        "quote": finding.quote,
        "evidence": [commit._asdict() for commit in finding.evidence],
        "suggestion": suggestion,
        "confidence": finding.confidence,
    }


def from_data(value: Mapping[str, Any]) -> Finding | None:
    """The inverse of `as_data`; None for any other value."""
    try:
        start, end = int(value["start"] or 0), int(value["end"] or 0)
        suggestion = None
        if (item := value["suggestion"]) is not None:
            replaced = Location(str(item["path"]), int(item["start"]), int(item["end"]))
            suggestion = Suggestion(replaced, str(item["text"]))
        rule, title, body, key, quote = (str(value[n]) for n in ("rule", "title", "body", "key", "quote"))
        evidence = [
            Evidence(str(commit["commit"]), int(commit["time"]), str(commit["subject"]))
            for commit in value["evidence"]
        ]
        confidence = None if value["confidence"] is None else float(value["confidence"])
        location = Location(str(value["path"]), start, end, bool(value["old"]))
        level = Level[str(value["level"]).upper()]
        return Finding(
            rule, level, title, location, body, key, quote, tuple(evidence), suggestion, confidence
        )
    except (KeyError, TypeError, ValueError):
        return None


def listed(items: Sequence[str], most: int, rest: str = " and {} more") -> str:
    """The first `most` items, separated by commas, and the number of further ones."""
    return ", ".join(items[:most]) + (rest.format(len(items) - most) if len(items) > most else "")
