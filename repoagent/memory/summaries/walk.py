"""A file on its way to a summary: part by part, then joined. Who answers what is not known yet is given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from repoagent.dataclass import dataclass
from repoagent.llm import Request
from repoagent.llm.call import ignore
from repoagent.memory.summaries.ask import (
    clipped,
    join_request,
    key_of,
    part_request,
    whole_request,
    words_of_part,
)
from repoagent.memory.summaries.parts import ONE_CALL, File, Part, Record, cut, unchanged
from repoagent.memory.summaries.shelf import Shelf
from repoagent.memory.summaries.store import Summary

JOINED = 96_000  # characters of summaries that are joined in one call
LEAST = 4_000
NAMELESS = "standard input"
_GROUP = 4  # summaries at least that are joined to a stretch, where there are too many for one call


@dataclass(frozen=True)
class Question:
    """What a model is asked, in about how many words it is to answer, under which key the answer is kept, and what it
    is about. `carries`: it holds what a person wrote of an older text."""

    key: str
    about: str
    request: Request
    words: int
    carries: bool


@dataclass(frozen=True)
class PartSummary:
    """What was said of a part ("" where there is nothing but white space). `asked`: a model was, in this run."""

    part: Part
    summary: Summary
    asked: bool


@dataclass(frozen=True)
class FileSummary:
    """What was said of a file. `asked`: a model was asked for it, or to join it, in this run. A file that was asked
    about in one call has one part, with the same summary."""

    file: File
    words: int
    summary: Summary
    parts: tuple[PartSummary, ...]
    asked: bool

    @property
    def paid(self) -> int:
        """How many of its parts were asked about in this run."""
        return sum(part.asked for part in self.parts)


Ask = Callable[[Question], Summary]
OnPart = Callable[[str, int, int], None]  # of which file, how many of its parts are done, how many it has


def walk(
    file: File,
    shelf: Shelf,
    words: int,
    ask: Ask,
    *,
    context_tokens: int | None = None,
    on_part: OnPart = ignore,
) -> FileSummary:
    """The summary of `file`: what the `shelf` knows of it, and of the rest what `ask` answers, kept at once.

    `context_tokens` is what the model takes in. Raises Refused, and what `ask` raises.
    """
    return _Walk(file, shelf, words, (ask, on_part), context_tokens).summary()


class _Walk:
    """One file on its way to a summary."""

    def __init__(
        self,
        file: File,
        shelf: Shelf,
        words: int,
        hooks: tuple[Ask, OnPart],
        context_tokens: int | None,
    ) -> None:
        self._file, self._shelf, self._words = file, shelf, words
        self._ask, self._on_part = hooks
        self._name = file.path or NAMELESS
        self._last = shelf.last(file.path)
        takes = context_tokens * 3 // 2 if context_tokens else JOINED  # half of what it takes in, in bytes
        self._room, self._joined = max(LEAST, min(ONE_CALL, takes)), max(LEAST, min(JOINED, takes))
        self._parts = cut(file, self._last, room=self._room)
        self._earlier = self._corrected()

    def summary(self) -> FileSummary:
        parts = tuple(self._summaries())
        texts = [one.summary.text for one in parts if one.summary.text]
        if len(self._parts) == 1 and parts:
            whole, asked, key = parts[0].summary, parts[0].asked, self._key(self._parts[0])
        elif texts:
            whole, asked, key = self._join(texts)
        else:
            return FileSummary(self._file, self._words, Summary(""), parts, False)
        self._shelf.remember(Record(self._file.path, self._file.sha256, key, self._words, self._parts))
        return FileSummary(self._file, self._words, whole, parts, asked)

    def _summaries(self) -> Iterator[PartSummary]:
        for number, part in enumerate(self._parts):
            text = self._file.text(part.start, part.end)
            if not text.strip():
                yield PartSummary(part, Summary(""), False)
                continue
            key = self._key(part)
            known = self._shelf.known(key)
            if known is not None:
                yield PartSummary(part, known, False)
                continue
            self._on_part(self._name, number, len(self._parts))
            yield PartSummary(part, self._said(key, part, text, self._earlier.get(number, "")), True)

    def _said(self, key: str, part: Part, text: str, earlier: str) -> Summary:
        words, shown, note = self._words, text[: self._room], ""
        if len(shown) < len(text):
            note = f"the last {len(text) - len(shown):,} of its {len(text):,} characters are not shown"
        if len(self._parts) == 1:
            request = whole_request(self._name, shown, words, key=key, note=note, earlier=earlier)
            about = self._name
        else:
            words = words_of_part(words)
            request = part_request(
                self._name, shown, words, key=key, scope=part.scope, note=note, earlier=earlier
            )
            about = f"{self._name}, lines {part.first_line}-{part.last_line}"
        question = Question(key, about, request, words, bool(earlier))
        return self._shelf.keep(key, self._ask(question))

    def _join(self, texts: Sequence[str]) -> tuple[Summary, bool, str]:
        """One summary of several, over stretches where they are too many; whether anybody was asked, and its key."""
        each = words_of_part(self._words)
        while len(texts) > _GROUP and sum(map(len, self._clipped(texts))) > self._joined:
            texts = [
                self._joining("stretch", group, each)[0].text if len(group) > 1 else group[0]
                for group in _groups(self._clipped(texts), self._joined)
            ]
        return self._joining("join", self._clipped(texts), self._words)

    def _joining(self, kind: str, texts: Sequence[str], words: int) -> tuple[Summary, bool, str]:
        key = key_of(kind, words, *texts)
        if (known := self._shelf.known(key)) is not None:
            return known, False, key
        whole = kind == "join"
        self._on_part(self._name, len(self._parts), len(self._parts))
        earlier = self._earlier.get(-1, "") if whole else ""
        request = join_request(self._name, texts, words, key=key, whole=whole, earlier=earlier)
        about = self._name if whole else f"a stretch of {self._name}"
        question = Question(key, about, request, words, bool(earlier))
        return self._shelf.keep(key, self._ask(question)), True, key

    def _clipped(self, texts: Sequence[str]) -> list[str]:
        return [clipped(text, words_of_part(self._words), self._joined // (_GROUP + 1)) for text in texts]

    def _key(self, part: Part) -> str:
        if len(self._parts) == 1:
            return key_of("whole", self._words, part.sha256)
        return key_of("part", words_of_part(self._words), part.sha256)

    def _corrected(self) -> dict[int, str]:
        """What a person wrote of the last text of this path: by the number of the part, -1 for the whole."""
        last = self._last
        if last is None:
            return {}
        found = {}
        if text := self._persons(last.key):
            found[0 if len(self._parts) == 1 else -1] = text
        if len(last.parts) == len(self._parts) > 1:  # then one that is no more is the one in its place now
            same = unchanged(last, self._file.data)
            for number in set(range(len(self._parts))) - same.keys():
                old = key_of("part", words_of_part(self._words), last.parts[number].sha256)
                if text := self._persons(old):
                    found[number] = text
        return found

    def _persons(self, key: str) -> str:
        kept = self._shelf.kept(key)
        return kept.text if kept is not None and (kept.edited or kept.carries) else ""


def _groups(texts: Sequence[str], room: int) -> Iterator[list[str]]:
    """Neighbours that are joined in one call. Where one group ends is seen in its last text, as far as room allows: a
    new text in one place changes the groups near it, not all that follow."""
    group: list[str] = []
    size = 0
    for text in texts:
        if len(group) >= _GROUP and size + len(text) > room:
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
        if len(group) >= _GROUP and int(key_of("end", 0, text)[:2], 16) % 16 == 0:
            yield group
            group, size = [], 0
    if group:
        yield group
