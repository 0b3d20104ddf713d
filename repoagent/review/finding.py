"""The findings of a review, the report that contains them, and the saved last report.

The last report is saved as JSON, so that later commands can refer to a finding by its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.storage import jsonl
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr


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

    `path` is relative to the top, decoded with os.fsdecode. `old` means lines of the file before.
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
    """One thing that a reviewer should look at. All texts are plain, without markup or control characters.

    `rule` is a stable id of `rules.RULES`. `key` identifies the finding among others of its rule, independent of line
    numbers: the missing partner, the symbol, the quoted code. `quote` is the code at `location`, whole lines.
    """

    rule: str
    level: Level
    title: str  # one sentence on one line
    location: Location
    body: str = ""  # what goes wrong and how to see it, or how it was computed; may have several paragraphs
    key: str = ""
    quote: str = ""
    evidence: tuple[Evidence, ...] = ()
    suggestion: Suggestion | None = None
    confidence: float | None = None  # 0 to 1

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, stable when the lines of the finding move."""
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
    model: str = ""  # "" if none was asked
    tokens: int = 0
    cost: float | None = None  # US dollars; None when it is not known
    base: str = ""  # commit that the change starts from; "" for none
    head: str = ""  # commit that it ends in; "" for the index or the work tree
    by_file: dict[str, bytes] = field(
        default_factory=dict
    )  # the new texts of files with findings, for code frames
    rules: tuple[str, ...] = ()  # that were applied, without those of a model

    def worst(self) -> Level | None:
        return max((finding.level for finding in self.findings), default=None)


VERSION = 1
LEAST = 4  # characters of an id that identify a finding
MOST = 500  # findings of a report that are saved


@dataclass(frozen=True)
class LastReport:
    """The saved last report; `findings` includes the dismissed ones."""

    title: str
    base: str
    head: str
    findings: tuple[Finding, ...]


def reviews_dir(layout: Layout) -> Path:
    """The folder of saved reports, dismissals, habits and cached answers."""
    return layout.root / "reviews"


def last_path(layout: Layout) -> Path:
    return reviews_dir(layout) / "last.json"


def log_path(layout: Layout) -> Path:
    return reviews_dir(layout) / "log.jsonl"


def read_log(layout: Layout, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """A record of each past review, the oldest first, without those of a newer version."""
    return (
        line for line in jsonl.read_records(log_path(layout), warn=warn) if line.get("version") == VERSION
    )


def _log(layout: Layout, report: Report) -> None:
    levels = [finding.level for finding in report.findings]
    line = {
        "version": VERSION,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
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
    jsonl.append_record(log_path(layout), line)


def save_last(layout: Layout, report: Report) -> None:
    """Save `report` as the last one and append a record to the log. Raises Refused or Busy if it cannot be written."""
    ensure(layout)
    found = [*report.findings, *report.dismissed][:MOST]
    value = {
        "title": report.title,
        "base": report.base,
        "head": report.head,
        "findings": [{"id": finding.id, **as_data(finding)} for finding in found],
    }
    jsonl.write_document(last_path(layout), value, version=VERSION)
    _log(layout, report)


def read_last(layout: Layout, *, warn: Warn = to_stderr) -> LastReport | None:
    """The last report; None if there is none or it cannot be read."""
    value = jsonl.read_document(last_path(layout), version=VERSION, warn=warn)
    if value is None:
        return None
    raw = value.get("findings")
    found = [from_data(one) for one in raw if isinstance(one, dict)] if isinstance(raw, list) else []
    return LastReport(
        str(value.get("title", "")),
        str(value.get("base", "")),
        str(value.get("head", "")),
        tuple(one for one in found if one is not None),
    )


def find_in(last: LastReport | None, finding_id: str) -> Finding:
    """The finding whose id starts with `finding_id`. Raises UsageError unless there is exactly one."""
    if last is None:
        raise UsageError("there is no review yet; run `repoagent review` first")
    wanted = finding_id.strip().lower()
    if len(wanted) < LEAST:
        raise UsageError(f"finding id {finding_id!r} is too short; give at least {LEAST} characters")
    found = [one for one in last.findings if one.id.startswith(wanted)]
    ids = sorted({one.id for one in found})
    if len(ids) > 1:
        raise UsageError(f"finding id {finding_id} is ambiguous ({', '.join(ids)}); give more characters")
    if not ids:
        raise UsageError(
            f"the last review ({last.title or 'of a change'}) has no finding {finding_id}; use an id that it printed, "
            "or run `repoagent review` again"
        )
    return found[0]


def as_data(finding: Finding) -> dict[str, Any]:
    """A finding as JSON data, without its id."""
    suggestion = finding.suggestion
    return {
        "rule": finding.rule,
        "level": finding.level.word,
        "title": finding.title,
        "place": _place(finding.location),
        "body": finding.body,
        "key": finding.key,
        "quote": finding.quote,
        "evidence": [[one.commit, one.time, one.subject] for one in finding.evidence],
        "suggestion": None
        if suggestion is None
        else {"place": _place(suggestion.location), "text": suggestion.text},
        "confidence": finding.confidence,
    }


def from_data(value: Mapping[str, Any]) -> Finding | None:
    """The inverse of `as_data`; None for any other value."""
    try:
        suggestion = value["suggestion"]
        confidence = value["confidence"]
        return Finding(
            rule=_text(value["rule"]),
            level=Level[_text(value["level"]).upper()],
            title=_text(value["title"]),
            location=_read_place(value["place"]),
            body=_text(value["body"]),
            key=_text(value["key"]),
            quote=_text(value["quote"]),
            evidence=tuple(Evidence(_text(c), int(t), _text(s)) for c, t, s in value["evidence"]),
            suggestion=None
            if suggestion is None
            else Suggestion(_read_place(suggestion["place"]), _text(suggestion["text"])),
            confidence=None if confidence is None else float(confidence),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _place(place: Location) -> dict[str, Any]:
    return {"path": place.path, "start": place.start, "end": place.end, "old": place.old}


def _read_place(value: Mapping[str, Any]) -> Location:
    return Location(_text(value["path"]), int(value["start"]), int(value["end"]), bool(value["old"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
