"""Cache the claims about each block by a hash of the question, so that no block is paid for twice."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.llm.registry import provider_of
from repoagent.review.finding import Level, reviews_dir
from repoagent.review.llm.chunks import Block
from repoagent.review.llm.claims import Claim
from repoagent.storage import json_files
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout, Warn, ensure

PROMPT = 1  # increment when a change of the prompt makes cached answers obsolete
VERSION = 1
KEEP_DAYS = 60
_DAY = 86_400


@dataclass(frozen=True)
class AnswerCache:
    """The answers of one model to one set of rules. Answers of a cassette (`replay:`) are not cached."""

    layout: Layout
    spec: str
    rules: Sequence[str]
    warn: Warn
    afresh: bool = False

    @property
    def disabled(self) -> bool:
        return provider_of(self.spec).answered_by == "recording"

    def key(self, block: Block) -> str:
        return block.key(f"{PROMPT} {self.spec} {' '.join(self.rules)}")

    def get(self, block: Block) -> list[Claim] | None:
        """The claims about this block with its current line numbers; None if there is no answer."""
        if self.afresh or self.disabled:
            return None
        path = self._path(self.key(block))
        try:
            value = json_files.read_document(path, version=VERSION, warn=self.warn)
        except Refused:  # a newer format, or not a regular file
            return None
        claims = value.get("claims") if value is not None else None
        if not isinstance(claims, list):
            return None
        parsed = [_claim(item, block) for item in claims if isinstance(item, dict)]
        return [claim for claim in parsed if claim is not None]

    def put(self, block: Block, claims: Sequence[Claim]) -> None:
        """Save the verified claims about this block; only warns if that fails."""
        if self.disabled:
            return
        value = {"path": block.path, "model": self.spec, "claims": [_data(claim, block) for claim in claims]}
        try:
            ensure(self.layout)
            json_files.write_document(self._path(self.key(block)), value, version=VERSION)
        except (Refused, Busy) as error:
            self.warn(f"could not cache an answer: {error}")

    def _path(self, key: str) -> Path:
        return reviews_dir(self.layout) / "answers" / key[:2] / f"{key[2:34]}.json"


def forget(layout: Layout, days: int = KEEP_DAYS) -> None:
    """Remove the answers that are older than `days` days; checks at most once a day."""
    root = reviews_dir(layout) / "answers"
    marker = root / "looked-through"
    now = time.time()
    if not root.is_dir() or (marker.exists() and 0 <= now - marker.stat().st_mtime < _DAY):
        return
    try:
        write_whole(marker, b"")
    except Refused:  # the folder is read-only
        return
    for path in root.glob("??/*.json"):
        try:
            if path.stat().st_mtime < now - days * _DAY:
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            continue


def _data(claim: Claim, block: Block) -> dict[str, Any]:
    first = block.first(old=claim.old)
    return {
        "rule": claim.rule,
        "old": claim.old,
        "lines": [claim.first - first, claim.last - first] if claim.first else None,
        "level": claim.level.word if claim.level is not None else None,
        "title": claim.title,
        "quote": list(claim.quote),
        "why": claim.why,
        "replace": None if claim.replace is None else list(claim.replace),
    }


def _claim(value: Mapping[str, Any], block: Block) -> Claim | None:
    """The inverse of `_data`; None for an invalid value."""
    try:
        old = bool(value["old"])
        first, last = (block.first(old=old) + int(n) for n in value["lines"]) if value["lines"] else (0, 0)
        return Claim(
            str(value["rule"]),
            block.path,
            first,
            last,
            str(value["title"]),
            tuple(map(str, value["quote"])),
            str(value["why"]),
            old,
            None if value["level"] is None else Level[str(value["level"]).upper()],
            None if value["replace"] is None else tuple(map(str, value["replace"])),
        )
    except (KeyError, TypeError, ValueError):
        return None
