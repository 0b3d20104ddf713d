"""Summarize files with a model: part by part, then joined.

`plan` estimates the calls, `summarize` makes them, and `summary_block` and `purpose` give prompts the summaries that
still match the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import sha256
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, Refused
from repoagent.history.render import plain
from repoagent.llm.client import OnWait, complete, ignore
from repoagent.llm.model import (
    Message,
    Model,
    Part,
    Request,
    Usage,
    display_name,
    fence,
    printable,
    public,
    without_thought,
)
from repoagent.llm.usage import Meter, Price, estimate
from repoagent.memory.file_summary_store import (
    ONE_CALL,
    SourceFile,
    Summary,
    SummaryCache,
    SummaryPart,
    SummaryRecord,
    cut,
    folder_of,
    read_record,
    read_summary,
    unchanged,
)
from repoagent.storage.layout import Layout
from repoagent.storage.secrets import without_secrets

PROMPT = 1  # raised when the prompt changes so much that what it has brought should be asked for again
WORDS = 150
_TOKENS_A_WORD = 3
_THINKING = 4_000  # tokens of a reply that a model may use up before its answer
_FENCED = re.compile(r"(`{3,})[\w-]*\n(.*?)\n?\1", re.DOTALL)
_MOST_WORDS = 4  # times what was asked for: what is longer is not taken, and not shown to who joins it
_SPARE_WORDS = 100


def words_of_part(words: int) -> int:
    """How long the summary of a part is for a whole of `words`; in few steps, so that another whole does not mean
    other parts."""
    return next((part for most, part in ((300, 120), (800, 300)) if words <= most), 600)


def key_of(kind: str, words: int, *texts: str) -> str:
    """Under what the answer is kept: made of all that it depends on but the model, as a hash in hexadecimal. `texts`
    are the hashes of the bytes that are asked about, or the summaries that are joined."""
    marks = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return sha256("\0".join([f"{kind} {PROMPT} {words}", *marks]).encode()).hexdigest()


def whole_request(
    name: str, text: str, words: int, *, key: str, note: str = "", earlier: str = ""
) -> Request:
    """A file in one call. `note` says what of it is not shown, `earlier` is what a person wrote of an older text."""
    asked = f"Summarize the file {_named(name)} in about {words} words."
    return _request(fence(text, f"file path={_quoted(name)}"), asked, words, key, note=note, earlier=earlier)


def part_request(
    name: str,
    text: str,
    words: int,
    *,
    key: str,
    scope: Sequence[str] = (),
    note: str = "",
    earlier: str = "",
) -> Request:
    """A part of a file; `scope` names what holds its beginning."""
    inside = f", which begins inside {' > '.join(map(_quoted, scope))}," if scope else ""
    asked = (
        f"This is one part of the larger file {_named(name)}. Summarize this part{inside} in about {words} words, with "
        "the names of what is defined in it: your summary will be joined with those of the other parts by a reader who "
        "does not see this part."
    )
    return _request(fence(text, f"part path={_quoted(name)}"), asked, words, key, note=note, earlier=earlier)


def join_request(
    name: str, texts: Sequence[str], words: int, *, key: str, whole: bool = True, earlier: str = ""
) -> Request:
    """The summaries of parts, in the order of the file, to be made one: of the `whole` file, or of a stretch of it."""
    blocks = "\n".join(fence(text, f'summary part="{number}"') for number, text in enumerate(texts, 1))
    of = f"{'' if whole else 'a section of '}the file {_named(name)}"
    asked = (
        f"These are the summaries of the parts of {of}, in order. Combine them into one summary of "
        f"{'the whole file' if whole else 'that section'} in about {words} words."
    )
    return _request(blocks, asked, words, key, earlier=earlier)


def clipped(text: str, words: int, most: int) -> str:
    """A summary as it is shown to who joins it: not much longer than was asked for, at most `most` characters."""
    limit = min(most, words * _MOST_WORDS * 8)
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] + " …"


def parse_summary(reply: str, words: int) -> str:
    """The summary in a reply; "" where there is none, or one so much longer than the `words` that were asked for that
    it can't be meant as one."""
    text = without_thought(reply).strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[2].strip()
    if len(text.split()) > _MOST_WORDS * words + _SPARE_WORDS:
        return ""
    return without_secrets(printable(text.replace("\r\n", "\n"))).strip()


def _request(data: str, asked: str, words: int, key: str, *, note: str = "", earlier: str = "") -> Request:
    parts = [data]
    if note:
        parts.append(f"({note})")
    if earlier:
        parts.append(
            "A person wrote this description earlier, perhaps of an older version. Keep what is still true, in "
            f"their words where possible:\n{fence(earlier, 'earlier')}"
        )
    text = without_secrets(printable("\n".join([*parts, "", asked, ""])))
    system = (files("repoagent.memory") / "prompts" / "file_summary.md").read_text(encoding="utf-8")
    return Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(text, "text"),)),),
        _THINKING + _TOKENS_A_WORD * 2 * words,
        json.dumps({"summary": key}),
    )


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _named(name: str) -> str:
    """A path in prose: as it is, or quoted where it holds what would break the line."""
    return name if name.isprintable() else _quoted(name)


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

    part: SummaryPart
    summary: Summary
    asked: bool


@dataclass(frozen=True)
class FileSummary:
    """What was said of a file. `asked`: a model was asked for it, or to join it, in this run. A file that was asked
    about in one call has one part, with the same summary."""

    file: SourceFile
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
    file: SourceFile,
    cache: SummaryCache,
    words: int,
    ask: Ask,
    *,
    context_tokens: int | None = None,
    on_part: OnPart = ignore,
) -> FileSummary:
    """The summary of `file`: what the `cache` knows of it, and of the rest what `ask` answers, kept at once.

    `context_tokens` is what the model takes in. Raises Refused, and what `ask` raises.
    """
    return _Walk(file, cache, words, (ask, on_part), context_tokens).summary()


class _Walk:
    """One file on its way to a summary."""

    def __init__(
        self,
        file: SourceFile,
        cache: SummaryCache,
        words: int,
        hooks: tuple[Ask, OnPart],
        context_tokens: int | None,
    ) -> None:
        self._file, self._cache, self._words = file, cache, words
        self._ask, self._on_part = hooks
        self._name = file.path or NAMELESS
        self._last = cache.last(file.path)
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
        self._cache.remember(SummaryRecord(self._file.path, self._file.sha256, key, self._words, self._parts))
        return FileSummary(self._file, self._words, whole, parts, asked)

    def _summaries(self) -> Iterator[PartSummary]:
        for number, part in enumerate(self._parts):
            text = self._file.text(part.start, part.end)
            if not text.strip():
                yield PartSummary(part, Summary(""), False)
                continue
            key = self._key(part)
            known = self._cache.known(key)
            if known is not None:
                yield PartSummary(part, known, False)
                continue
            self._on_part(self._name, number, len(self._parts))
            yield PartSummary(part, self._said(key, part, text, self._earlier.get(number, "")), True)

    def _said(self, key: str, part: SummaryPart, text: str, earlier: str) -> Summary:
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
        return self._cache.keep(key, self._ask(question))

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
        if (known := self._cache.known(key)) is not None:
            return known, False, key
        whole = kind == "join"
        self._on_part(self._name, len(self._parts), len(self._parts))
        earlier = self._earlier.get(-1, "") if whole else ""
        request = join_request(self._name, texts, words, key=key, whole=whole, earlier=earlier)
        about = self._name if whole else f"a section of {self._name}"
        question = Question(key, about, request, words, bool(earlier))
        return self._cache.keep(key, self._ask(question)), True, key

    def _clipped(self, texts: Sequence[str]) -> list[str]:
        return [clipped(text, words_of_part(self._words), self._joined // (_GROUP + 1)) for text in texts]

    def _key(self, part: SummaryPart) -> str:
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
        kept = self._cache.kept(key)
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


_TOKENS_PER_ANSWER_WORD = 1.5


@dataclass(frozen=True)
class Plan:
    """What is to be asked: how many calls, about how many of all parts, and about how many tokens that takes."""

    calls: int
    asked: int
    parts: int
    usage: Usage

    def cost(self, price: Price | None) -> float | None:
        """About how many US dollars it takes; None where the price is not known."""
        return None if price is None else price.of(self.usage)


def plan(
    files: Sequence[SourceFile], cache: SummaryCache, *, words: int = WORDS, context_tokens: int | None = None
) -> Plan:
    """What summarizing `files` would take: it is done, with answers that say nothing and are not kept.

    `context_tokens` is what the model takes in. Raises Refused for files of the cache that are no real ones.
    """
    questions: list[Question] = []
    usage = Usage(estimated=True)
    trial = cache.aside()

    def ask(question: Question) -> Summary:
        nonlocal usage
        questions.append(question)
        usage += replace(estimate(question.request), output=round(question.words * _TOKENS_PER_ANSWER_WORD))
        return Summary(f"{'wording ' * question.words}{question.key}")

    done = [walk(file, trial, words, ask, context_tokens=context_tokens) for file in files]
    parts = sum(len(one.parts) for one in done)
    return Plan(len(questions), sum(one.paid for one in done), parts, usage)


def cached_summary(file: SourceFile, cache: SummaryCache, *, words: int = WORDS) -> FileSummary:
    """The summary of a file of which nothing is left to be asked (see `plan`)."""

    def nobody(question: Question) -> Summary:
        raise ModelError(f"the summary of {question.about} has just been deleted; run the command again")

    return walk(file, cache, words, nobody)


def summarize(
    file: SourceFile,
    cache: SummaryCache,
    model: Model,
    meter: Meter,
    *,
    words: int = WORDS,
    context_tokens: int | None = None,
    output_tokens: int = 16_000,
    on_part: OnPart = ignore,
    on_wait: OnWait = ignore,
) -> FileSummary:
    """The summary of `file`, in about `words` words. Each answer is kept at once, so that what was paid for is not lost
    whatever ends this; nothing is kept of a call that failed, or that brought nothing usable.

    Raises ModelError, LimitReached, Refused; ^C goes through.
    """

    def ask(question: Question) -> Summary:
        request = question.request
        request = replace(request, max_output_tokens=min(output_tokens, request.max_output_tokens))
        reply = complete(model, request, meter, on_wait=on_wait)
        text = parse_summary(reply.text, question.words)
        if not text:
            raise ModelError(
                f"{display_name(model.spec)} gave no usable summary of {question.about}; try another --model"
            )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        name = public(reply.model or model.spec)
        return Summary(text, question.about, name, now, carries=question.carries)

    return walk(file, cache, words, ask, context_tokens=context_tokens, on_part=on_part)


FRESH = 0.9  # of the bytes that were summarized, or the summary is not shown
_LINE = 200  # characters of what a file is for


def summary_block(layout: Layout, path: str, data: bytes) -> str:
    """What is known of the file `path` with the bytes `data`, as a prompt quotes it; "" where there is nothing that is
    still good. What can't be read is left out in silence: a prompt is whole without it."""
    found = _fresh(layout, path, data)
    if found is None:
        return ""
    summary, changed = found
    by = "corrected by a user" if summary.edited else f"by {summary.model or 'a model'}"
    since = f", of an older version: {changed}" if changed else ""
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
    file = SourceFile(path, data)
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
    what = f"{changed} of {count} parts changed since" if changed else "text was added since"
    return None if found is None else (found, what)


def _silent(sentence: str) -> None:
    """What is broken is said when somebody asks for a summary."""
