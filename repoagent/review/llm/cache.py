"""Cache the claims about each block by a hash of the question, so that the user pays for each block once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.llm.registry import provider_of
from repoagent.review.finding import Level, reviews_dir
from repoagent.review.llm.chunks import Block
from repoagent.review.llm.claims import Claim
from repoagent.storage import json_files
from repoagent.storage.layout import Layout, Warn, ensure

PROMPT = 1  # increment if a change of the prompt makes cached answers obsolete
VERSION = 1
KEEP_DAYS = 60


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

    def _path(self, block: Block) -> Path:
        key = block.key(f"{PROMPT} {self.spec} {' '.join(self.rules)}")
        return reviews_dir(self.layout) / "answers" / key[:2] / f"{key[2:34]}.json"

    def get(self, block: Block) -> list[Claim] | None:
        """The claims about this block with its current line numbers; None if there is no answer."""
        if self.afresh or self.disabled:
            return None
        try:
            value = json_files.read_document(self._path(block), version=VERSION, warn=self.warn)
        except Refused:  # a newer format, or not a regular file
            return None
        saved = value.get("claims") if value is not None else None
        if not isinstance(saved, list):
            return None
        claims = [_claim(item, block) for item in saved if isinstance(item, dict)]
        return [claim for claim in claims if claim is not None]

    def put(self, block: Block, claims: Sequence[Claim]) -> None:
        """Save the verified claims about this block; only warns if that fails."""
        if self.disabled:
            return
        value = {"path": block.path, "model": self.spec, "claims": [_data(claim, block) for claim in claims]}
        try:
            ensure(self.layout)
            json_files.write_document(self._path(block), value, version=VERSION)
        except (Refused, Busy) as error:
            self.warn(f"could not cache an answer: {error}")


def forget(layout: Layout, days: int = KEEP_DAYS) -> None:
    """Remove the answers that are older than `days` days."""
    oldest = time.time() - days * 86_400
    for path in (reviews_dir(layout) / "answers").glob("??/*.json"):
        with suppress(OSError):  # another process removed it, or the folder is read-only
            if path.stat().st_mtime < oldest:
                path.unlink()


def _data(claim: Claim, block: Block) -> dict[str, Any]:
    first = block.first(old=claim.old)
    return {
        "rule": claim.rule,
        "old": claim.old,
        "lines": [claim.first - first, claim.last - first] if claim.first else None,
        "level": claim.level.word if claim.level is not None else None,
        "title": claim.title,
        "quote": claim.quote,
        "why": claim.why,
        "replace": claim.replace,
    }


def _claim(value: Mapping[str, Any], block: Block) -> Claim | None:
    """The inverse of `_data`; None for an invalid value."""
    try:
        old, replace = bool(value["old"]), value["replace"]
        first, last = (block.first(old=old) + int(n) for n in value["lines"]) if value["lines"] else (0, 0)
        rule, title, why = (str(value[name]) for name in ("rule", "title", "why"))
        level = None if value["level"] is None else Level[str(value["level"]).upper()]
        replace = None if replace is None else tuple(map(str, replace))
        quote = tuple(map(str, value["quote"]))
        return Claim(rule, block.path, first, last, title, quote, why, old, level, replace)
    except (KeyError, TypeError, ValueError):
        return None
