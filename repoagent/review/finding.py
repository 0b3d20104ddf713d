"""The rules of a review, its findings, and the report that contains them.

The last report is saved, so that later commands can look up a finding by its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError, UsageError
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.config.settings import Settings


class Level(IntEnum):
    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


OFF = "off"


class Rule(NamedTuple):
    id: str
    default: Level
    source: Literal["static", "history", "model"]
    line: str  # its description


_NOTE, _WARNING, _ERROR = Level.NOTE, Level.WARNING, Level.ERROR
_RULES = (
    Rule("secret", _ERROR, "static", "The change adds a key, a token or a password."),
    Rule("conflict-marker", _ERROR, "static", "The change contains a git conflict marker."),
    Rule("parse-error", _ERROR, "static", "A file that parsed before the change no longer does."),
    Rule("removed-symbol", _ERROR, "static", "Other code still imports or calls a removed name."),
    Rule("debug-leftover", _WARNING, "static", "A line looks left over from debugging."),
    Rule("partner-missing", _WARNING, "history", "A file that usually changes with these is missing."),
    Rule(
        "review-relaxed", _WARNING, "history", "The change makes its own review, or later ones, more lenient."
    ),
    Rule("correctness", _WARNING, "model", "A changed line does something wrong."),
    Rule("security", _ERROR, "model", "A changed line makes an attack possible."),
    Rule("tests", _NOTE, "model", "Changed behavior has no test, or a test checks nothing."),
    Rule("compatibility", _WARNING, "model", "Something that others rely on behaves differently."),
)
RULES = {rule.id: rule for rule in _RULES}


def level_of(rule: str, settings: Settings) -> Level | None:
    """The configured level of a rule; None if it is off. Raises KeyError for an unknown rule."""
    word = settings.text(f"review.rules.{RULES[rule].id}")
    return None if word == OFF else Level[word.upper()]


def parse_levels(values: tuple[str, ...]) -> dict[str, str]:
    """Return the values of `--rule` as settings by key. Raises UsageError for a value that is not ID=LEVEL."""
    levels: dict[str, str] = {}
    words = (OFF, *(level.word for level in Level))
    for text in values:
        rule, equals, word = text.partition("=")
        if rule not in RULES:
            raise UsageError(f"unknown rule {rule!r}; the rules are: {', '.join(RULES)}")
        if not equals or word.lower() not in words:
            raise UsageError(f"--rule {text}: use {rule}=LEVEL, where LEVEL is one of {', '.join(words)}")
        levels[f"review.rules.{rule}"] = word.lower()
    return levels


class Location(NamedTuple):
    """Lines `start` to `end` (from 1, inclusive) of a file; 0 and 0 for the whole file.

    They are lines of the file after the change, or before it if `old`. `path` is relative to the top of the work tree,
    decoded with os.fsdecode.
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
    """Replaces the lines at `location` with `text`: whole lines, each with its line ending; "" removes them."""

    location: Location
    text: str


class Finding(NamedTuple):
    """A problem that a reviewer should look at. All texts are plain, without markup or control characters."""

    rule: str  # the id of one of RULES
    level: Level
    title: str  # one sentence on one line
    location: Location
    body: str = ""  # the problem and how to reproduce it, or how it was computed; may have several paragraphs
    key: str = (
        ""  # what distinguishes it from others of its rule without line numbers: the symbol, the quoted code
    )
    quote: str = ""  # the code at `location`, whole lines
    evidence: tuple[Evidence, ...] = ()
    suggestion: Suggestion | None = None
    confidence: float | None = None  # 0 to 1

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that stay the same when the finding's lines move."""
        from hashlib import sha256  # OpenSSL takes 10 ms to load, and most reviews find nothing

        parts = (self.rule, self.location.path, self.key or " ".join(self.quote.split()) or self.title)
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


class ReviewOutcome(NamedTuple):  # a dataclass would take 1 ms more of each commit
    """What the checks or a model found. `notes` and `unseen` are as in `Report`."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # values that must not be printed with the code around a finding
    dropped: tuple[str, ...] = ()  # the reason for each finding of a model that could not be verified
    model: str = ""
    tokens: int = 0
    cost: float | None = 0.0
    error: RepoagentError | None = None  # why the model's review is incomplete; also in `notes`


@dataclass(frozen=True, repr=False)
class Report:
    """The result of one review. The findings are ordered as they are shown: by level, then by file and line."""

    title: str  # "the staged change", "main..topic (3 commits)"
    files: int
    findings: Sequence[Finding] = ()
    dismissed: Sequence[Finding] = ()
    dropped: int = 0  # findings of a model that could not be verified
    unseen: Sequence[str] = ()  # phrases for parts of the change that were not checked
    notes: Sequence[str] = ()  # sentences for the user
    model: str = ""  # "" if no model was asked
    tokens: int = 0
    cost: float | None = None  # US dollars; None if unknown
    base: str = ""  # commit before the change; "" for none
    head: str = ""  # commit after the change; "" for the index or the work tree
    by_file: dict[str, bytes] = field(default_factory=dict)  # the new texts of files with findings
    rules: tuple[str, ...] = ()  # the applied rules, without those of a model

    def worst(self) -> Level | None:
        """The highest level of the open findings; None if there are none."""
        return max((finding.level for finding in self.findings), default=None)


VERSION = 2  # of the saved last report
LOG_VERSION = 1
LAST = "last.json"
LEAST = 4  # characters of an id that identify a finding
MOST = 500  # findings of a report that are saved


def reviews_dir(layout: Layout) -> Path:
    """The folder of saved reports, dismissals and cached answers."""
    return layout.root / "reviews"


def read_log(layout: Layout, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """Return the records of past reviews, oldest first. Skips records of other versions."""
    from repoagent.storage import json_files

    records = json_files.read_records(reviews_dir(layout) / "log.jsonl", warn=warn)
    return (record for record in records if record.get("version") == LOG_VERSION)


def save_last(layout: Layout, report: Report) -> None:
    """Save `report` as the last one and append a record to the log. Raises Refused or Busy if it cannot be written."""
    from repoagent.storage import json_files

    ensure_root(layout)
    saved = [as_data(finding) for finding in [*report.findings, *report.dismissed][:MOST]]
    last = {"title": report.title, "base": report.base, "head": report.head, "findings": saved}
    json_files.write_document(reviews_dir(layout) / LAST, last, version=VERSION)
    levels = [finding.level for finding in report.findings]
    record = {
        "version": LOG_VERSION,
        "time": json_files.timestamp(),
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


def read_last(layout: Layout, *, warn: Warn = to_stderr) -> Report | None:
    """Return the last report, with its title, commits and findings, including dismissed ones.

    Return None if there is none or it cannot be read.
    """
    from repoagent.storage import json_files

    value = json_files.read_document(reviews_dir(layout) / LAST, version=VERSION, warn=warn)
    if value is None:
        return None
    try:
        findings = [from_data(item) for item in value["findings"]]
    except (KeyError, TypeError, ValueError):  # of an earlier version, or edited
        return None
    title, base, head = (str(value.get(name, "")) for name in ("title", "base", "head"))
    return Report(title, 0, findings, base=base, head=head)


def find_in(last: Report | None, finding_id: str) -> Finding:
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
    """A finding as JSON data, for reports and for the saved last report."""
    location, suggestion = finding.location, None
    if finding.suggestion is not None:
        path, start, end, _ = finding.suggestion.location
        suggestion = {"path": path, "start": start, "end": end, "text": finding.suggestion.text}
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


def from_data(value: Mapping[str, Any]) -> Finding:
    """Return the finding in data from `as_data`. Raises KeyError, TypeError or ValueError for invalid data."""
    item, confidence = value["suggestion"], value["confidence"]
    if item is not None:
        item = Suggestion(
            Location(str(item["path"]), int(item["start"]), int(item["end"])), str(item["text"])
        )
    first, last = int(value["start"] or 0), int(value["end"] or 0)
    commits = value["evidence"]
    return Finding(
        level=Level[str(value["level"]).upper()],
        location=Location(str(value["path"]), first, last, bool(value["old"])),
        evidence=tuple(Evidence(str(c["commit"]), int(c["time"]), str(c["subject"])) for c in commits),
        suggestion=item,
        confidence=None if confidence is None else float(confidence),
        **{name: str(value[name]) for name in ("rule", "title", "body", "key", "quote")},
    )


def apply_suggestion(data: bytes, suggestion: Suggestion) -> bytes | None:
    """The file with the suggestion applied; None if it lacks these lines, or its encoding cannot represent the text."""
    lines = data.split(b"\n")
    start, end = suggestion.location.start, suggestion.location.end
    if suggestion.location.old or not 1 <= start <= end <= len(lines):
        return None
    try:
        data.decode()
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "latin-1"
    try:
        text = suggestion.text.encode(encoding)
    except UnicodeEncodeError:
        return None
    if end == len(lines) and lines[-1]:  # the file has no final newline
        text = text.rstrip(b"\r\n")
    with_endings = [line + b"\n" for line in lines[:-1]] + [lines[-1]]
    return b"".join([*with_endings[: start - 1], text, *with_endings[end:]])
