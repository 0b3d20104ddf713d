"""Summarize files with a model: the parts first, then the whole.

`plan` estimates the calls, `summarize` makes them, and `summary_block` and `purpose` return the summaries that still
match the file, for prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, Refused
from repoagent.history.render import plain
from repoagent.llm.complete import OnWait, complete, ignore
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
from repoagent.storage.json_files import now
from repoagent.storage.layout import Layout
from repoagent.storage.secrets import without_secrets

PROMPT = 1  # increased if the prompt changes so much that cached summaries should be replaced
WORDS = 150
_TOKENS_A_WORD = 3
_TOKENS_AN_ANSWER_WORD = 1.5
_THINKING = 4_000  # tokens of a reply that a model may spend on thinking
_FENCED = re.compile(r"(`{3,})[\w-]*\n(.*?)\n?\1", re.DOTALL)
_MOST_WORDS = 4  # factor: longer answers are rejected, and longer summaries cut before they are joined
_SPARE_WORDS = 100
JOINED = 96_000  # characters of summaries that are joined in one call
LEAST = 4_000
_GROUP = 4  # least number of summaries joined into one section, if there are too many for one call
FRESH = 0.9  # least share of unchanged bytes for a summary to be shown
_LINE = 200  # most characters of the purpose of a file


@dataclass(frozen=True)
class Question:
    """A request for a summary of `about` in about `words` words, to be stored under `key`. `carries`: whether it
    contains what a user wrote about an older version."""

    key: str
    about: str
    request: Request
    words: int
    carries: bool


@dataclass(frozen=True)
class PartSummary:
    """The summary of a part ("" if it is only white space). `asked`: whether this run called a model for it."""

    part: SummaryPart
    summary: Summary
    asked: bool


@dataclass(frozen=True)
class FileSummary:
    """The summary of a file. `asked`: whether this run called a model for it, or to join it. A file that fits into one
    call has one part, with the same summary."""

    file: SourceFile
    words: int
    summary: Summary
    parts: tuple[PartSummary, ...]
    asked: bool

    @property
    def paid(self) -> int:
        """The number of parts that this run called a model for."""
        return sum(part.asked for part in self.parts)


Ask = Callable[[Question], Summary]
OnPart = Callable[[str, int, int], None]  # path, number of finished parts, number of parts


def words_of_part(words: int) -> int:
    """The length of the summary of a part for a summary of `words`; in few steps, so that summaries of parts are reused
    for other lengths."""
    return next((part for most, part in ((300, 120), (800, 300)) if words <= most), 600)


def key_of(kind: str, words: int, *texts: str) -> str:
    """The key of a summary: a hash of everything that it depends on except the model. `texts` are the hashes of the
    summarized bytes, or the joined summaries."""
    marks = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return sha256("\0".join([f"{kind} {PROMPT} {words}", *marks]).encode()).hexdigest()


def clipped(text: str, words: int, most: int) -> str:
    """A summary cut to not much more than `words`, and to at most `most` characters."""
    limit = min(most, words * _MOST_WORDS * 8)
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0] + " …"


def parse_summary(reply: str, words: int) -> str:
    """The summary in a reply; "" if there is none, or it is much too long for a request of `words`."""
    text = without_thought(reply).strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[2].strip()
    if len(text.split()) > _MOST_WORDS * words + _SPARE_WORDS:
        return ""
    return without_secrets(printable(text.replace("\r\n", "\n"))).strip()


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _groups(texts: Sequence[str], room: int) -> Iterator[list[str]]:
    """Split `texts` into groups to join in one call each. If there is room, the hash of its last text ends a group, so
    that a new text changes only the groups near it."""
    group: list[str] = []
    for text in texts:
        if len(group) >= _GROUP and sum(map(len, group)) + len(text) > room:
            yield group
            group = []
        group.append(text)
        if len(group) >= _GROUP and int(key_of("end", 0, text)[:2], 16) % 16 == 0:
            yield group
            group = []
    if group:
        yield group


class _FileSummarizer:
    """Summarizes one file. Takes what the `cache` has, asks the model for the rest and stores each answer at once.

    `context_tokens` is the context length of the model.
    """

    def __init__(
        self,
        file: SourceFile,
        cache: SummaryCache,
        words: int,
        ask: Ask,
        *,
        context_tokens: int | None = None,
        on_part: OnPart = ignore,
    ) -> None:
        self._file, self._cache, self._words = file, cache, words
        self._ask_model, self._on_part = ask, on_part
        self._path = file.path or "standard input"
        # quote a path that would break the line
        self._name = self._path if self._path.isprintable() else _quoted(self._path)
        room = context_tokens * 3 // 2 if context_tokens else JOINED  # half of the context, in bytes
        self._room, self._joined = max(LEAST, min(ONE_CALL, room)), max(LEAST, min(JOINED, room))
        self._part_words = words_of_part(words)
        last = cache.last(file.path)
        self._parts = cut(file, last, room=self._room)
        self._is_single = len(self._parts) == 1
        self._earlier = self._corrections(last) if last is not None else {}

    def summarize(self) -> FileSummary:
        """Return the summary. Raises Refused, and the errors of the model call."""
        parts = tuple(self._summarize_part(number, part) for number, part in enumerate(self._parts))
        texts = [part.summary.text for part in parts if part.summary.text]
        if self._is_single:
            whole, asked, key = parts[0].summary, parts[0].asked, self._key(self._parts[0])
        elif texts:
            while len(texts) > _GROUP and sum(map(len, self._clipped(texts))) > self._joined:
                groups = _groups(self._clipped(texts), self._joined)
                texts = [
                    self._join("stretch", group, self._part_words)[0].text if len(group) > 1 else group[0]
                    for group in groups
                ]
            whole, asked, key = self._join("join", self._clipped(texts), self._words)
        else:
            return FileSummary(self._file, self._words, Summary(""), parts, False)
        self._cache.remember(SummaryRecord(self._file.path, self._file.sha256, key, self._words, self._parts))
        return FileSummary(self._file, self._words, whole, parts, asked)

    def _summarize_part(self, number: int, part: SummaryPart) -> PartSummary:
        text = self._file.text(part.start, part.end)
        if not text.strip():
            return PartSummary(part, Summary(""), False)
        key = self._key(part)
        if (known := self._cache.known(key)) is not None:
            return PartSummary(part, known, False)
        self._on_part(self._path, number, len(self._parts))
        shown, note = text[: self._room], ""
        if len(shown) < len(text):
            note = f"the last {len(text) - len(shown):,} of its {len(text):,} characters are not shown"
        if self._is_single:
            kind, about, words = "file", self._path, self._words
            task = f"Summarize the file {self._name} in about {words} words."
        else:
            kind, words = "part", self._part_words
            about = f"{self._path}, lines {part.first_line}-{part.last_line}"
            scope = " > ".join(map(_quoted, part.scope))
            inside = f", which begins inside {scope}," if scope else ""
            task = (
                f"This is one part of the larger file {self._name}. Summarize this part{inside} in about {words} "
                "words, with the names of what is defined in it: your summary will be joined with those of the other "
                "parts by a reader who does not see this part."
            )
        data = fence(shown, f"{kind} path={_quoted(self._path)}") + (f"\n({note})" if note else "")
        return PartSummary(
            part,
            self._ask(key, about, data, task=task, words=words, earlier=self._earlier.get(number, "")),
            True,
        )

    def _join(self, kind: str, texts: Sequence[str], words: int) -> tuple[Summary, bool, str]:
        """Join summaries into one of the whole file or of a "stretch"; return it, whether the model was called, and its
        key."""
        key = key_of(kind, words, *texts)
        if (known := self._cache.known(key)) is not None:
            return known, False, key
        self._on_part(self._path, len(self._parts), len(self._parts))
        of, what = ("", "the whole file") if kind == "join" else ("a section of ", "that section")
        task = (
            f"These are the summaries of the parts of {of}the file {self._name}, in order. Combine them into one "
            f"summary of {what} in about {words} words."
        )
        data = "\n".join(fence(text, f'summary part="{number}"') for number, text in enumerate(texts, 1))
        earlier = self._earlier.get(-1, "") if kind == "join" else ""
        return self._ask(key, f"{of}{self._path}", data, task=task, words=words, earlier=earlier), True, key

    def _ask(self, key: str, about: str, data: str, *, task: str, words: int, earlier: str) -> Summary:
        if earlier:
            data += (
                "\nA person wrote this description earlier, perhaps of an older version. Keep what is still true, in "
                f"their words where possible:\n{fence(earlier, 'earlier')}"
            )
        text = without_secrets(printable(f"{data}\n\n{task}\n"))
        system = (files("repoagent.memory") / "prompts" / "file_summary.md").read_text(encoding="utf-8")
        request = Request(
            (Part(system, "instructions", cache=True),),
            (Message("user", (Part(text, "text"),)),),
            _THINKING + _TOKENS_A_WORD * 2 * words,
            json.dumps({"summary": key}),
        )
        return self._cache.keep(key, self._ask_model(Question(key, about, request, words, bool(earlier))))

    def _clipped(self, texts: Sequence[str]) -> list[str]:
        return [clipped(text, self._part_words, self._joined // (_GROUP + 1)) for text in texts]

    def _key(self, part: SummaryPart) -> str:
        if self._is_single:
            return key_of("whole", self._words, part.sha256)
        return key_of("part", self._part_words, part.sha256)

    def _corrections(self, last: SummaryRecord) -> dict[int, str]:
        """What a user wrote about the last version of this path, by the number of the part; -1 is the whole file."""
        corrections = {}
        if text := self._correction(last.key):
            corrections[0 if self._is_single else -1] = text
        if (
            len(last.parts) == len(self._parts) > 1
        ):  # else it is unclear which new part replaces which old one
            for number in set(range(len(self._parts))) - unchanged(last, self._file.data).keys():
                if text := self._correction(key_of("part", self._part_words, last.parts[number].sha256)):
                    corrections[number] = text
        return corrections

    def _correction(self, key: str) -> str:
        stored = self._cache.kept(key)
        return stored.text if stored is not None and (stored.edited or stored.carries) else ""


@dataclass(frozen=True)
class Plan:
    """The number of model calls, the number of parts to summarize out of all `parts`, and the estimated tokens."""

    calls: int
    asked: int
    parts: int
    usage: Usage

    def cost(self, price: Price | None) -> float | None:
        """The estimated cost in US dollars; None if the price is unknown."""
        return None if price is None else price.of(self.usage)


def plan(
    files: Sequence[SourceFile], cache: SummaryCache, *, words: int = WORDS, context_tokens: int | None = None
) -> Plan:
    """The estimated cost of summarizing `files`, found by a trial run with made-up answers that are not stored.

    Raises Refused if a file of the cache is a link or a folder.
    """
    questions: list[Question] = []
    trial = cache.aside()

    def ask(question: Question) -> Summary:
        questions.append(question)
        return Summary(f"{'wording ' * question.words}{question.key}")

    summaries = [
        _FileSummarizer(file, trial, words, ask, context_tokens=context_tokens).summarize() for file in files
    ]
    usage = Usage(estimated=True)
    for question in questions:
        output = round(question.words * _TOKENS_AN_ANSWER_WORD)
        usage += replace(estimate(question.request), output=output)
    parts, paid = sum(len(summary.parts) for summary in summaries), sum(summary.paid for summary in summaries)
    return Plan(len(questions), paid, parts, usage)


def cached_summary(file: SourceFile, cache: SummaryCache, *, words: int = WORDS) -> FileSummary:
    """The summary of a file that needs no model calls according to `plan`."""

    def refuse(question: Question) -> Summary:
        raise ModelError(f"the summary of {question.about} has just been deleted; run the command again")

    return _FileSummarizer(file, cache, words, refuse).summarize()


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
    """The summary of `file`, in about `words` words.

    Each usable answer is stored at once, so that nothing that was paid for is lost. Raises ModelError, LimitReached,
    Refused, and KeyboardInterrupt on ^C.
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
        name = public(reply.model or model.spec)
        return Summary(text, question.about, name, now(), carries=question.carries)

    return _FileSummarizer(
        file, cache, words, ask, context_tokens=context_tokens, on_part=on_part
    ).summarize()


def summary_block(layout: Layout, path: str, data: bytes) -> str:
    """The summary of the file `path` with the bytes `data`, for a prompt; "" if there is none, it is out of date, or it
    cannot be read."""
    summary, changed = _fresh(layout, path, data)
    if summary is None:
        return ""
    by = "corrected by a user" if summary.edited else f"by {summary.model or 'a model'}"
    since = f", of an older version: {changed}" if changed else ""
    return f"Summary of the file ({by}{since}):\n{clipped(summary.text, WORDS * 2, 10_000)}\n"


def may_have_purpose(layout: Layout, path: str, size: int) -> bool:
    """Whether a file of `size` bytes may have a `purpose`, so that it is worth reading."""
    if size <= ONE_CALL:
        return True
    try:
        last = read_record(folder_of(layout), path, _ignore)
    except Refused:
        return False
    return last is not None and last.parts[-1].end == size


def purpose(layout: Layout, path: str, data: bytes) -> str:
    """The purpose of the file in one line: the first sentence of the summary of exactly this version; else ""."""
    summary, changed = _fresh(layout, path, data)
    if summary is None or changed:
        return ""
    line = " ".join(summary.text.split())
    end = line.find(". ")
    return plain(line if end < 0 else line[: end + 1], _LINE)


def _fresh(layout: Layout, path: str, data: bytes) -> tuple[Summary | None, str]:
    """The summary of a file, and how much of the file has changed since, in words."""
    folder = folder_of(layout)
    if not data or not folder.is_dir():
        return None, ""
    digest = sha256(data).hexdigest()
    try:
        last = read_record(folder, path, _ignore)
        keys = [last.key] if last is not None and last.sha256 == digest else []
        for key in (*keys, key_of("whole", WORDS, digest)):  # the last finds a renamed file
            if summary := read_summary(folder, key, _ignore):
                return summary, ""
        if last is None or len(last.parts) == 1:
            return None, ""
        same = unchanged(last, data)
        if sum(last.parts[number].size for number in same) < FRESH * max(len(data), last.parts[-1].end):
            return None, ""
        changed = len(last.parts) - len(same)
        since = f"{changed} of {len(last.parts)} parts changed since" if changed else "text was added since"
        return read_summary(folder, last.key, _ignore), since
    except Refused:
        return None, ""


def _ignore(message: str) -> None:
    """Ignore broken files: they are reported when a user asks for a summary."""
