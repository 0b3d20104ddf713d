"""What a review says: findings, each at a place of the change, and the report that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from repoagent.dataclass import dataclass


class Level(IntEnum):
    """How much a finding matters; a rule that is off makes none."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Place(NamedTuple):
    """Lines `start` to `end` (from 1, both counted) of the file as the change leaves it; 0 and 0 for the whole file.

    `path` is relative to the top, decoded with os.fsdecode. `old` means the lines are those of the file before.
    """

    path: str
    start: int = 0
    end: int = 0
    old: bool = False


class Evidence(NamedTuple):
    """A commit that speaks for a finding."""

    commit: str  # full object name
    time: int  # seconds since 1970, of the committer
    subject: str


class Suggestion(NamedTuple):
    """Lines `place.start` to `place.end` become `text` (whole lines, each with its line ending; "" removes them)."""

    place: Place
    text: str


class Finding(NamedTuple):
    """One thing that a reviewer should look at. All texts are plain, without markup or control characters.

    `rule` is a stable id of `rules.RULES`. `key` tells the finding from others of its rule whatever the line numbers
    are: the missing partner, the symbol, the quoted code. `quote` is code that stands at `place`, whole lines.
    """

    rule: str
    level: Level
    title: str  # one sentence on one line
    place: Place
    body: str = ""  # what goes wrong and how to see it, or how it was computed; may have several paragraphs
    key: str = ""
    quote: str = ""
    evidence: tuple[Evidence, ...] = ()
    suggestion: Suggestion | None = None
    confidence: float | None = None  # 0 to 1

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits: the same for the same finding wherever its lines have moved."""
        from hashlib import sha256  # OpenSSL takes 10 ms to load, and most reviews find nothing

        parts = (self.rule, self.place.path, self.key or " ".join(self.quote.split()) or self.title)
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True, repr=False)
class Report:
    """What one review found, and what it did not look at.

    `findings` are in the order in which they are shown: by level, then by file and line. `unseen` has a sentence for
    each part of the change that was not looked at; `notes` are further sentences a person should read once.
    """

    title: str  # "the staged change", "main..topic (3 commits)"
    files: int
    findings: Sequence[Finding] = ()
    dismissed: Sequence[Finding] = ()
    dropped: int = 0  # findings of a model that could not be verified
    unseen: Sequence[str] = ()
    notes: Sequence[str] = ()
    model: str = ""  # "" when none was asked
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
