"""Summarize files with a model: the parts first, then the whole.

`plan_summary` estimates the calls, `summarize_file` makes them, and `summary_block` returns the summary
that still matches the file, for prompts.
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
from repoagent.llm import model as llm
from repoagent.llm.complete import OnWait, complete, do_nothing
from repoagent.llm.model import Message, Model, Part, Request, Usage, fence, printable
from repoagent.llm.usage import Meter, Price, estimate_usage
from repoagent.memory import file_summary_store as store
from repoagent.memory.file_summary_store import ONE_CALL, SourceFile, StoredSummary, SummaryCache, SummaryPart
from repoagent.storage.json_files import timestamp
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


@dataclass(frozen=True)
class PartSummary:
    """The summary of a part, which is "" for white space. `asked`: whether this run called a model for it."""

    part: SummaryPart
    summary: StoredSummary
    asked: bool


@dataclass(frozen=True)
class FileSummary:
    """The summary of a file. `asked`: whether this run called a model for it or to join the summaries of its parts."""

    file: SourceFile
    words: int
    summary: StoredSummary
    parts: tuple[PartSummary, ...]
    asked: bool

    @property
    def paid(self) -> int:
        """The number of parts for which this run called a model."""
        return sum(part.asked for part in self.parts)


OnPart = Callable[[str, int, int], None]  # path, number of finished parts, number of parts


@dataclass(frozen=True)
class _Question:
    """A request for a summary of `about` in roughly `words` words. `key` is a hash of everything that the summary
    depends on except the model."""

    key: str
    about: str
    words: int
    request: Request


def _question(
    kind: str, about: str, words: int, sources: Sequence[str], *, data: str, task: str
) -> _Question:
    """`sources` are the hash of the summarized bytes, or the joined summaries."""
    key = key_of(kind, words, *sources)
    text = without_secrets(printable(f"{data}\n\n{task}\n"))
    system = (files("repoagent.memory") / "prompts" / "file_summary.md").read_text(encoding="utf-8")
    request = Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(text, "text"),)),),
        _THINKING + _TOKENS_A_WORD * 2 * words,
        json.dumps({"summary": key}),
    )
    return _Question(key, about, words, request)


def key_of(kind: str, words: int, *texts: str) -> str:
    marks = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return sha256("\0".join([f"{kind} {PROMPT} {words}", *marks]).encode()).hexdigest()


def clipped(text: str, words: int, most: int) -> str:
    """A summary cut to a little more than `words` words, and to at most `most` characters."""
    limit = min(most, words * _MOST_WORDS * 8)
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0] + " …"


class _Work:
    """The questions about one file. `context_tokens` is the context length of the model."""

    def __init__(self, file: SourceFile, cache: SummaryCache, words: int, context_tokens: int | None) -> None:
        self.file, self.words = file, words
        self.path = file.path or "standard input"
        self.name = self.path if self.path.isprintable() else json.dumps(self.path, ensure_ascii=False)
        half = context_tokens * 3 // 2 if context_tokens else JOINED  # half of the context, in bytes
        self.room, self.joined = max(LEAST, min(ONE_CALL, half)), max(LEAST, min(JOINED, half))
        self.parts = store.cut(file, self.room)
        self.is_single = len(self.parts) == 1
        self.part_words = words  # there are few lengths, so that parts serve file summaries of other lengths
        if not self.is_single:
            self.part_words = next((part for most, part in ((300, 120), (800, 300)) if words <= most), 600)

    def of_part(self, part: SummaryPart) -> _Question | None:
        """Return the question that asks for the summary of a part; None if the part is only white space."""
        text = self.file.text(part.start, part.end)
        if not text.strip():
            return None
        shown, note = text[: self.room], ""
        if len(shown) < len(text):
            note = f"\n(the last {len(text) - len(shown):,} of its {len(text):,} characters are not shown)"
        kind, label, about = "whole", "file", self.path
        task = f"Summarize the file {self.name} in about {self.part_words} words."
        if not self.is_single:
            kind = label = "part"
            about = f"{self.path}, lines {part.first_line}-{part.last_line}"
            scope = " > ".join(json.dumps(symbol, ensure_ascii=False) for symbol in part.scope)
            inside = f", which begins inside {scope}," if scope else ""
            task = (
                f"This is one part of the larger file {self.name}. Summarize this part{inside} in about "
                f"{self.part_words} words, with the names of what is defined in it: your summary will be joined with "
                "those of the other parts by a reader who does not see this part."
            )
        data = fence(shown, f"{label} path={json.dumps(self.path, ensure_ascii=False)}") + note
        return _question(kind, about, self.part_words, [part.sha256], data=data, task=task)

    def of_whole(self, summaries: Sequence[str]) -> _Question:
        """Return the question that asks to combine the summaries of the parts."""
        texts = [clipped(text, self.part_words, self.joined // len(summaries)) for text in summaries]
        task = (
            f"These are the summaries of the parts of the file {self.name}, in order. Combine them into one summary of "
            f"the whole file in about {self.words} words."
        )
        data = "\n".join(fence(text, f'summary part="{number}"') for number, text in enumerate(texts, 1))
        return _question("join", self.path, self.words, texts, data=data, task=task)


@dataclass(frozen=True)
class FileSummaryPlan:
    """The number of model calls, the number of parts to summarize out of all `parts`, and the estimated tokens."""

    calls: int
    asked: int
    parts: int
    usage: Usage

    def cost(self, price: Price | None) -> float | None:
        """The estimated cost in US dollars; None if the price is unknown."""
        return None if price is None else price.of(self.usage)


def plan_summary(
    files: Sequence[SourceFile], cache: SummaryCache, *, words: int = WORDS, context_tokens: int | None = None
) -> FileSummaryPlan:
    """Return the estimated cost of summarizing `files`. Raises Refused if a cache file is a link or a folder."""
    todo: dict[str, _Question] = {}
    joins: dict[str, _Question] = {}
    parts = 0
    for file in files:
        work = _Work(file, cache, words, context_tokens)
        parts += len(work.parts)
        texts = []
        for question in filter(None, map(work.of_part, work.parts)):
            known = cache.known(question.key)
            if known is None:
                todo[question.key] = question
            texts.append(known.text if known else f"{'wording ' * question.words}{question.key}")
        if texts and not work.is_single and cache.known((join := work.of_whole(texts)).key) is None:
            joins[join.key] = join
    usage = Usage(estimated=True)
    for question in (*todo.values(), *joins.values()):
        output = round(question.words * _TOKENS_AN_ANSWER_WORD)
        usage += replace(estimate_usage(question.request), output=output)
    return FileSummaryPlan(len(todo) + len(joins), len(todo), parts, usage)


def summarize_file(
    file: SourceFile,
    cache: SummaryCache,
    model: Model | None = None,
    meter: Meter | None = None,
    *,
    words: int = WORDS,
    context_tokens: int | None = None,
    output_tokens: int = 16_000,
    on_part: OnPart = do_nothing,
    on_wait: OnWait = do_nothing,
) -> FileSummary:
    """Return the summary of `file`, in about `words` words. Without a model, `plan_summary` must have counted no calls.

    Each answer is stored at once. Raises ModelError for an unusable answer, Refused if an answer cannot be stored, and
    what `llm.complete.complete` raises.
    """

    def answer(question: _Question, number: int) -> tuple[StoredSummary, bool]:
        if (known := cache.known(question.key)) is not None:
            return known, False
        if model is None or meter is None:
            raise ModelError(f"the summary of {question.about} has just been deleted; run the command again")
        on_part(work.path, number, len(work.parts))
        most = min(output_tokens, question.request.max_output_tokens)
        reply = complete(model, replace(question.request, max_output_tokens=most), meter, on_wait=on_wait)
        text = llm.without_thought(reply.text).strip()
        if fenced := _FENCED.fullmatch(text):
            text = fenced[2].strip()
        text = without_secrets(printable(text.replace("\r\n", "\n"))).strip()
        if not text or len(text.split()) > _MOST_WORDS * question.words + _SPARE_WORDS:
            raise ModelError(
                f"{llm.display_name(model.spec)} gave no usable summary of {question.about}; choose another model"
            )
        summary = StoredSummary(text, question.about, llm.public_spec(reply.model or model.spec), timestamp())
        return cache.keep(question.key, summary), True

    work = _Work(file, cache, words, context_tokens)
    done: list[PartSummary] = []
    key = ""
    for number, part in enumerate(work.parts):
        question = work.of_part(part)
        if question is None:
            done.append(PartSummary(part, StoredSummary(""), False))
        else:
            key = question.key
            done.append(PartSummary(part, *answer(question, number)))
    texts = [part.summary.text for part in done if part.summary.text]
    if not texts:
        return FileSummary(file, words, StoredSummary(""), tuple(done), False)
    whole, asked = done[0].summary, done[0].asked
    if not work.is_single:
        join = work.of_whole(texts)
        key = join.key
        whole, asked = answer(join, len(work.parts))
    cache.remember(store.SummaryRecord(file.path, file.sha256, key, words, work.parts))
    return FileSummary(file, words, whole, tuple(done), asked)


def summary_block(layout: Layout, path: str, data: bytes) -> str:
    """Return the summary of the file `path` with the bytes `data`, for a prompt; "" if it is missing, outdated or
    unreadable."""
    folder, since = store.folder_of(layout), ""
    if not data or not folder.is_dir():
        return ""
    digest = sha256(data).hexdigest()
    try:
        last = store.read_record(folder, path, do_nothing)
        keys = [last.summary] if last is not None and last.sha256 == digest else []
        keys.append(key_of("whole", WORDS, digest))  # finds a renamed file
        summaries = (store.read_summary(folder, key, do_nothing) for key in keys)
        summary = next(filter(None, summaries), None)
        if summary is None and last is not None and len(last.parts) > 1:
            known = {part.sha256 for part in last.parts}
            parts = store.cut(SourceFile(path, data))
            new = [part.size for part in parts if part.sha256 not in known]
            if len(data) - sum(new) >= FRESH * max(len(data), last.parts[-1].end):
                summary = store.read_summary(folder, last.summary, do_nothing)
                since = f", of an older version: {len(new)} of {len(parts)} parts changed since"
    except Refused:
        return ""
    if summary is None:
        return ""
    by = "corrected by a user" if summary.edited else f"by {summary.model or 'a model'}"
    return f"Summary of the file ({by}{since}):\n{clipped(summary.text, WORDS * 2, 10_000)}\n"
