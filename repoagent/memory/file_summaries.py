"""Summarize files with a model: the parts first, then the whole.

`plan` estimates the calls, `summarize` makes them, and `summary_block` and `purpose` return the summaries that still
match the file, for prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, Refused
from repoagent.history.render import plain
from repoagent.llm import model as llm
from repoagent.llm.complete import OnWait, complete, ignore
from repoagent.llm.model import Message, Model, Part, Request, Usage, fence, printable
from repoagent.llm.usage import Meter, Price, estimate
from repoagent.memory import file_summary_store as store
from repoagent.memory.file_summary_store import ONE_CALL, SourceFile, Summary, SummaryCache, SummaryPart
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
FRESH = 0.9  # least share of unchanged bytes for a summary to be shown
_LINE = 200  # most characters of the purpose of a file


@dataclass(frozen=True)
class Question:
    """A request for a summary of `about` in roughly `words` words."""

    about: str
    request: Request
    words: int


@dataclass(frozen=True)
class PartSummary:
    """The summary of a part ("" if the part is only white space). `asked`: whether this run called a model for it."""

    part: SummaryPart
    summary: Summary
    asked: bool


@dataclass(frozen=True)
class FileSummary:
    """The summary of a file. `asked`: whether this run called a model for it or to join its parts. A file that fits
    into one call has one part, with the same summary."""

    file: SourceFile
    words: int
    summary: Summary
    parts: tuple[PartSummary, ...]
    asked: bool

    @property
    def paid(self) -> int:
        """The number of parts for which this run called a model."""
        return sum(part.asked for part in self.parts)


Ask = Callable[[Question], Summary]
OnPart = Callable[[str, int, int], None]  # path, number of finished parts, number of parts


def words_of_part(words: int) -> int:
    """The number of words for the summary of a part, if the summary of the whole file is to have `words` words. There
    are only a few lengths, so that part summaries can be reused for file summaries of other lengths."""
    return next((part for most, part in ((300, 120), (800, 300)) if words <= most), 600)


def key_of(kind: str, words: int, *texts: str) -> str:
    """The key of a summary: a hash of everything that it depends on except the model. `texts` are the hashes of the
    summarized bytes, or the joined summaries."""
    marks = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return sha256("\0".join([f"{kind} {PROMPT} {words}", *marks]).encode()).hexdigest()


def clipped(text: str, words: int, most: int) -> str:
    """A summary cut to a little more than `words` words, and to at most `most` characters."""
    limit = min(most, words * _MOST_WORDS * 8)
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0] + " …"


def parse_summary(reply: str, words: int) -> str:
    """The summary in a reply; "" if there is none, or if it is much longer than the requested `words`."""
    text = llm.without_thought(reply).strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[2].strip()
    if len(text.split()) > _MOST_WORDS * words + _SPARE_WORDS:
        return ""
    return without_secrets(printable(text.replace("\r\n", "\n"))).strip()


def _summarize(
    file: SourceFile,
    cache: SummaryCache,
    words: int,
    ask: Ask,
    *,
    context_tokens: int | None = None,
    on_part: OnPart = ignore,
) -> FileSummary:
    """Summarize one file: take what the `cache` has, call `ask` for the rest, and store each answer at once.

    `context_tokens` is the context length of the model. Raises Refused, and the errors of `ask`.
    """
    path = file.path or "standard input"
    name = path if path.isprintable() else json.dumps(path, ensure_ascii=False)
    half = context_tokens * 3 // 2 if context_tokens else JOINED  # half of the context, in bytes
    room, joined = max(LEAST, min(ONE_CALL, half)), max(LEAST, min(JOINED, half))
    parts = store.cut(file, cache.last(file.path), room=room)
    is_single = len(parts) == 1
    part_words = words if is_single else words_of_part(words)

    def summary_of(key: str, about: str, data: str, task: str, words: int) -> Summary:
        text = without_secrets(printable(f"{data}\n\n{task}\n"))
        system = (files("repoagent.memory") / "prompts" / "file_summary.md").read_text(encoding="utf-8")
        request = Request(
            (Part(system, "instructions", cache=True),),
            (Message("user", (Part(text, "text"),)),),
            _THINKING + _TOKENS_A_WORD * 2 * words,
            json.dumps({"summary": key}),
        )
        return cache.keep(key, ask(Question(about, request, words)))

    done: list[PartSummary] = []
    key = ""
    for number, part in enumerate(parts):
        text = file.text(part.start, part.end)
        if not text.strip():
            done.append(PartSummary(part, Summary(""), False))
            continue
        key = key_of("whole" if is_single else "part", part_words, part.sha256)
        if (known := cache.known(key)) is not None:
            done.append(PartSummary(part, known, False))
            continue
        on_part(path, number, len(parts))
        shown, note = text[:room], ""
        if len(shown) < len(text):
            note = f"\n(the last {len(text) - len(shown):,} of its {len(text):,} characters are not shown)"
        about, task = path, f"Summarize the file {name} in about {words} words."
        if not is_single:
            about = f"{path}, lines {part.first_line}-{part.last_line}"
            scope = " > ".join(json.dumps(symbol, ensure_ascii=False) for symbol in part.scope)
            inside = f", which begins inside {scope}," if scope else ""
            task = (
                f"This is one part of the larger file {name}. Summarize this part{inside} in about {part_words} "
                "words, with the names of what is defined in it: your summary will be joined with those of the other "
                "parts by a reader who does not see this part."
            )
        label = f"{'file' if is_single else 'part'} path={json.dumps(path, ensure_ascii=False)}"
        done.append(
            PartSummary(part, summary_of(key, about, fence(shown, label) + note, task, part_words), True)
        )
    texts = [part.summary.text for part in done if part.summary.text]
    if not texts:
        return FileSummary(file, words, Summary(""), tuple(done), False)
    if is_single:
        whole, asked = done[0].summary, done[0].asked
    else:
        texts = [clipped(text, part_words, joined // len(texts)) for text in texts]
        key = key_of("join", words, *texts)
        cached = cache.known(key)
        asked = cached is None
        if cached is None:
            on_part(path, len(parts), len(parts))
            task = (
                f"These are the summaries of the parts of the file {name}, in order. Combine them into one summary of "
                f"the whole file in about {words} words."
            )
            data = "\n".join(fence(text, f'summary part="{number}"') for number, text in enumerate(texts, 1))
            cached = summary_of(key, path, data, task, words)
        whole = cached
    cache.remember(store.SummaryRecord(file.path, file.sha256, key, words, parts))
    return FileSummary(file, words, whole, tuple(done), asked)


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
    """The estimated cost of summarizing `files`, from a trial run with made-up answers that are not stored.

    Raises Refused if a cache file is a link or a folder.
    """
    questions: list[Question] = []
    trial = cache.aside()

    def ask(question: Question) -> Summary:
        questions.append(question)
        return Summary(f"{'wording ' * question.words}{question.request.key}")

    summaries = [_summarize(file, trial, words, ask, context_tokens=context_tokens) for file in files]
    usage = Usage(estimated=True)
    for question in questions:
        output = round(question.words * _TOKENS_AN_ANSWER_WORD)
        usage += replace(estimate(question.request), output=output)
    parts, paid = sum(len(summary.parts) for summary in summaries), sum(summary.paid for summary in summaries)
    return Plan(len(questions), paid, parts, usage)


def cached_summary(file: SourceFile, cache: SummaryCache, *, words: int = WORDS) -> FileSummary:
    """The cached summary of a file for which `plan` counts no model calls."""

    def refuse(question: Question) -> Summary:
        raise ModelError(f"the summary of {question.about} has just been deleted; run the command again")

    return _summarize(file, cache, words, refuse)


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

    Each usable answer is stored at once, so that nothing already paid for is lost. Raises what `llm.complete.complete`
    raises, ModelError for an unusable answer, Refused if an answer cannot be stored, and KeyboardInterrupt on ^C.
    """

    def ask(question: Question) -> Summary:
        request = question.request
        request = replace(request, max_output_tokens=min(output_tokens, request.max_output_tokens))
        reply = complete(model, request, meter, on_wait=on_wait)
        text = parse_summary(reply.text, question.words)
        if not text:
            raise ModelError(
                f"{llm.display_name(model.spec)} gave no usable summary of {question.about}; choose another model"
            )
        name = llm.public(reply.model or model.spec)
        return Summary(text, question.about, name, now())

    return _summarize(file, cache, words, ask, context_tokens=context_tokens, on_part=on_part)


def summary_block(layout: Layout, path: str, data: bytes) -> str:
    """The summary of the file `path` with the bytes `data`, for a prompt; "" if there is none or if it is out of date
    or unreadable."""
    summary, changed = _fresh(layout, path, data)
    if summary is None:
        return ""
    by = "corrected by a user" if summary.edited else f"by {summary.model or 'a model'}"
    since = f", of an older version: {changed}" if changed else ""
    return f"Summary of the file ({by}{since}):\n{clipped(summary.text, WORDS * 2, 10_000)}\n"


def may_have_purpose(layout: Layout, path: str, size: int) -> bool:
    """Whether a file of `size` bytes may have a `purpose`, and so is worth reading."""
    if size <= ONE_CALL:
        return True
    try:
        last = store.read_record(store.folder_of(layout), path, _ignore)
    except Refused:
        return False
    return last is not None and last.parts[-1].end == size


def purpose(layout: Layout, path: str, data: bytes) -> str:
    """The purpose of the file in one line: the first sentence of the summary of exactly this version, or "" if there is
    none."""
    summary, changed = _fresh(layout, path, data)
    if summary is None or changed:
        return ""
    line = " ".join(summary.text.split())
    end = line.find(". ")
    return plain(line if end < 0 else line[: end + 1], _LINE)


def _fresh(layout: Layout, path: str, data: bytes) -> tuple[Summary | None, str]:
    """The summary of a file, and how much of the file has changed since, in words."""
    folder = store.folder_of(layout)
    if not data or not folder.is_dir():
        return None, ""
    digest = sha256(data).hexdigest()
    try:
        last = store.read_record(folder, path, _ignore)
        keys = [last.key] if last is not None and last.sha256 == digest else []
        for key in (*keys, key_of("whole", WORDS, digest)):  # the last finds a renamed file
            if summary := store.read_summary(folder, key, _ignore):
                return summary, ""
        if last is None or len(last.parts) == 1:
            return None, ""
        same = store.unchanged(last, data)
        if sum(last.parts[number].size for number in same) < FRESH * max(len(data), last.parts[-1].end):
            return None, ""
        changed = len(last.parts) - len(same)
        since = f"{changed} of {len(last.parts)} parts changed since" if changed else "text was added since"
        return store.read_summary(folder, last.key, _ignore), since
    except Refused:
        return None, ""


def _ignore(message: str) -> None:
    """Ignore broken files: they are reported when a user asks for a summary."""
