"""Summarize commits with a model, in batches; each answer is saved as soon as it arrives and never requested again.

There is a file for each commit: `summaries/ab/cdef….json` for the commit abcdef…. Lines are stored by commit and path,
so later renames do not affect them. Earlier versions also wrote `summaries/patches/`, which is not read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.git.process import GitError
from repoagent.history.commit_details import BULK, HistoryStep
from repoagent.history.log import LISTED, git_offline, split_log
from repoagent.history.render import plain_line
from repoagent.storage import json_files
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr

if TYPE_CHECKING:
    from repoagent.llm.complete import OnWait
    from repoagent.llm.model import Model, Request, Usage
    from repoagent.llm.usage import Meter, Price

COMMITS = 10  # of one call
OUTPUT_TOKENS = 16_000
_CALL_BYTES, _LEAST_CALL_BYTES = 48_000, 4_000
_BODY = 600  # characters of a message below its subject
_PATCH = 8_000  # bytes of the patch of one commit
_QUERY_PATCH = 5_000  # of these, for the queried file
_LEAST_PATCH = 300  # with less space left, a diff is omitted
_FILES = 8  # a larger commit gets a line for the queried file alone
_OTHER_PATHS = 20  # that are named
_LINE_TOKENS = 45
_THINKING_TOKENS = 4_000  # that a model may use up before its answer
_LOG = (
    "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.suppressBlankEmpty=false",
    *LISTED, "--raw", "-p", "-M", "-l1000", "-U3", "--inter-hunk-context=0", "--no-abbrev", "--full-index",
    "--diff-algorithm=myers", "--indent-heuristic",
)  # fmt: skip
_MESSAGES = (*LISTED, "--no-patch", "--format=%H%x00%b")
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_INDEX = re.compile(r"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", re.MULTILINE)
_ANSWER = re.compile(r"[ \t]*(?:[-*][ \t]+)?\**(\d{1,3})\.(\d{1,3})\**[ \t]*[:.)][ \t*]*(.*?)[ \t]*")
VERSION = 1
LINE = 200  # characters of a summary
_SAVED_FILES, _MODEL, _DATE = 50, 200, 40  # files of a commit; characters

Patch = dict[str, bytes]  # the change of one commit to its first parent: paths, and their parts of the patch


class Question(NamedTuple):
    """A commit to summarize, described by `text`.

    The model writes a line for each of `paths`. The line for `path` is required, unless `path` is "" (a directory).
    """

    commit: str
    path: str
    paths: tuple[str, ...]
    text: str


class SummaryPlan(NamedTuple):
    """The questions of each call, and roughly how many tokens they take."""

    batches: tuple[tuple[Question, ...], ...]
    usage: Usage
    output_tokens: int = OUTPUT_TOKENS

    @property
    def commits(self) -> int:
        return sum(map(len, self.batches))

    def cost(self, price: Price | None) -> float | None:
        """The estimated cost in US dollars; None for an unknown price."""
        return None if price is None else price.of(self.usage)


@dataclass
class SummaryOutcome:
    """The new summaries, and the commits whose lines were missing or garbled."""

    summaries: dict[str, CommitSummary] = field(default_factory=dict)
    garbled: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CommitSummary:
    """A model's summary of a commit: one line for the whole, and one for each of `files`, by their paths in the commit;
    `date` is ISO 8601."""

    commit: str
    line: str
    files: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    date: str = ""


def add_summaries(
    steps: Iterable[HistoryStep], summaries: Mapping[str, CommitSummary]
) -> tuple[HistoryStep, ...]:
    """`steps` with lines from `summaries` (by commit id): the line for the file, else that for the commit."""
    return tuple(
        replace(step, summary=summary.files.get(step.commit.path, summary.line))
        if (summary := summaries.get(step.commit.commit))
        else step
        for step in steps
    )


def read_summaries(
    folder: Path, steps: Iterable[HistoryStep], warn: Warn = to_stderr
) -> dict[str, CommitSummary]:
    """The saved summaries of `steps`, by commit id. Raises Refused for a symbolic link or a newer format."""
    every = (read_summary(folder, step.commit.commit, warn) for step in steps)
    return {summary.commit: summary for summary in every if summary is not None}


def _path(folder: Path, commit: str) -> Path:
    return folder / commit[:2] / f"{commit[2:]}.json"


def read_summary(folder: Path, commit: str, warn: Warn = to_stderr) -> CommitSummary | None:
    """The summary of `commit`, or None. A broken file is renamed. Raises Refused for a symbolic link or a newer
    format."""
    value = json_files.read_document(_path(folder, commit), version=VERSION, warn=warn)
    return None if value is None else from_dict(value, commit)


def write_summary(folder: Path, summary: CommitSummary) -> None:
    """Save a summary. Raises Refused if its file cannot be written."""
    value = {
        "commit": summary.commit,
        "model": summary.model,
        "date": summary.date,
        "summary": summary.line,
        "files": dict(summary.files),
    }
    json_files.write_document(_path(folder, summary.commit), value, version=VERSION)


def from_dict(value: Mapping[str, Any], commit: str) -> CommitSummary | None:
    """The summary of `commit` from untrusted data, cleaned and shortened; None if there is none."""
    line = one_line(value.get("summary"))
    if not line:
        return None
    files = value.get("files")
    pairs = list(files.items())[:_SAVED_FILES] if isinstance(files, Mapping) else []
    lines = {str(path): text for path, value in pairs if (text := one_line(value))}
    return CommitSummary(
        commit, line, lines, one_line(value.get("model"), _MODEL), one_line(value.get("date"), _DATE)
    )


def one_line(value: object, width: int = LINE) -> str:
    """`value` on one printable line of at most `width` characters; "" if it is not a string."""
    return plain_line(value, width) if isinstance(value, str) else ""


def patches(top: Path, commits: Sequence[str], paths: Collection[str] = ()) -> dict[str, Patch]:
    """The patches of `commits`, limited to `paths` if there are any; those of merges are empty. Nothing is fetched: a
    clone without the blobs has no patches."""
    if not commits:
        return {}
    mark = token_hex(8)  # unlikely in any file name or line
    pathspec = ("--", *paths) if paths else ()
    try:
        data = git_offline(top, *_LOG, f"--format={mark}%H", *pathspec, names=commits)
    except GitError:  # objects are missing
        return {}
    fields = re.split(rb"%s([0-9a-f]{40}(?:[0-9a-f]{24})?)\0" % mark.encode(), data)
    result = {}
    for oid, change in zip(fields[1::2], fields[2::2], strict=True):
        raw, _, whole = change.partition(b"\0\0")
        ((_, files),) = split_log(b"\x01\0" + raw + b"\0")
        names = []
        for entry, each in files:
            names += [os.fsdecode(each[-1])] * (2 if entry[5] == b"T" else 1)  # T: deleted and added
        starts = [match.start() for match in _FILE.finditer(whole)]
        sections = [whole[start:end] for start, end in pairwise([*starts, len(whole)])]
        result[oid.decode()] = dict(zip(names, sections, strict=True)) if len(names) == len(sections) else {}
    return result


def bodies(top: Path, commits: Sequence[str]) -> dict[str, str]:
    """The messages of `commits` without their subjects. Calls git once."""
    wanted = set(commits)
    tokens = git_offline(top, *_MESSAGES, names=commits).split(b"\0") if commits else []
    pairs = (
        (oid.decode("ascii", "replace"), text.decode("utf-8", "replace")) for oid, text in pairwise(tokens)
    )
    return {commit: body for commit, body in pairs if commit in wanted}


def question(step: HistoryStep, body: str, patch: Patch | None, shown: Sequence[str]) -> Question:
    """The question about a commit. `shown` are those of its paths that a model may see. For a small commit it asks
    for a line for each file, so that the user never pays for it again; for a larger one, only for the queried file.
    """
    from repoagent.llm.model import printable

    commit = step.commit
    sections = {path: section for path, section in (patch or {}).items() if path in shown}
    query = commit.path if commit.path in shown else ""
    small = len(shown) <= _FILES
    paths = [query] if query else []
    if small:
        paths += [path for path in sections if path != query]
    lines = [f"subject: {one_line(commit.subject, 300)}"]
    if message := _cut(printable(body.strip()), _BODY):
        lines.append(f"message:\n{message}")
    if not small or (step.files or 0) > _FILES:
        others = ", ".join([one_line(path, 80) for path in shown if path != query][:_OTHER_PATHS])
        lines.append(f"changes {step.files or len(shown)} files{f', among them {others}' if others else ''}")
    left = _PATCH
    for path in paths or list(sections)[:_FILES]:
        if path not in sections or left < _LEAST_PATCH:
            lines.append(f"(diff of {one_line(path, 80)} omitted)")
            continue
        limit = _QUERY_PATCH if path == query else max(_LEAST_PATCH, _PATCH // max(2, len(paths)))
        section = sections[path].decode("utf-8", "replace").replace("\r\n", "\n")
        section = _cut(printable(_INDEX.sub("", section, count=1).strip("\n")), min(limit, left))
        left -= len(section)
        lines.append(section)
    return Question(commit.commit, query, tuple(paths), "\n".join(lines))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    start = text[:limit]
    return (start.rpartition("\n")[0] or start) + "\n(truncated)"


def request(questions: Sequence[Question], max_output_tokens: int) -> Request:
    """A single request for all of `questions`. Its key depends on the commits alone, so that recordings stay valid when
    the prompt changes."""
    from repoagent.llm.model import Message, Part, Request
    from repoagent.storage.secrets import without_secrets

    digest = sha256("\0".join(q.text for q in questions).encode("utf-8", "replace")).hexdigest()
    marks = (digest[start : start + 8] for start in range(56))
    mark = next(mark for mark in marks if not any(mark in q.text for q in questions))
    blocks, lines = [], ["Answer with these lines:"]
    for number, item in enumerate(questions, 1):
        blocks.append(f'<commit number="{number}" id="{mark}">\n{item.text}\n</commit id="{mark}">\n')
        lines.append(f"{number}.0: what commit {number} did as a whole")
        for file_number, path in enumerate(item.paths, 1):
            lines.append(f"{number}.{file_number}: what it did to {one_line(path, 150)}")
    system = (files("repoagent.history") / "prompts" / "commit_summary.md").read_text(encoding="utf-8")
    text = without_secrets("\n".join([*blocks, *lines, ""]))
    return Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(text, "commits"),)),),
        min(max_output_tokens, _THINKING_TOKENS + _LINE_TOKENS * 2 * (len(lines) - 1)),
        json.dumps({"summaries": [[q.commit, *q.paths] for q in questions]}, ensure_ascii=True),
    )


def answers(reply: str, questions: Sequence[Question]) -> dict[str, tuple[str, dict[str, str]]]:
    """For each commit in `reply`, by id: its line, and the lines for its files by path.

    A commit is left out if its own line or the queried file's line is missing, ambiguous, empty or too long.
    """
    from repoagent.llm.model import without_thought
    from repoagent.storage.secrets import without_secrets

    texts: dict[tuple[int, int], set[str]] = {}
    for line in without_thought(reply).split("\n"):
        if match := _ANSWER.fullmatch(line.rstrip("\r")):
            texts.setdefault((int(match[1]), int(match[2])), set()).add(match[3])
    result: dict[str, tuple[str, dict[str, str]]] = {}
    for number, item in enumerate(questions, 1):
        lines = []
        for n in range(len(item.paths) + 1):
            found = texts.get((number, n), set())
            text = found.pop() if len(found) == 1 else ""
            if len(text) > 2 * LINE or text.startswith(("what it did to ", "what commit ")):
                text = ""
            if len(text) > 1 and text[0] == text[-1] and text[0] in "`\"'":
                text = text[1:-1]
            lines.append(one_line(without_secrets(text)))
        line, *file_lines = lines
        by_path = {path: text for path, text in zip(item.paths, file_lines, strict=True) if text}
        if line and (item.path not in item.paths or item.path in by_path):
            result[item.commit] = (line, by_path)
    return result


def plan_summaries(
    top: Path,
    steps: Sequence[HistoryStep],
    known: Mapping[str, CommitSummary],
    *,
    why_not: Callable[[str], str | None],
    context_tokens: int | None = None,
    output_tokens: int = OUTPUT_TOKENS,
) -> SummaryPlan:
    """The questions about those `steps` that have no `known` summary. `why_not` says why a path may not be sent;
    `context_tokens` is the model's context window. Raises GitError if git fails."""
    from repoagent.llm.model import Usage
    from repoagent.llm.usage import estimate_usage

    missing = [step for step in steps if step.commit.commit not in known]
    small = [step.commit.commit for step in missing if step.files is None or step.files <= BULK]
    changes, messages = patches(top, small), bodies(top, [step.commit.commit for step in missing])
    budget = min(_CALL_BYTES, max(_LEAST_CALL_BYTES, (context_tokens or _CALL_BYTES) * 3 // 2))
    batches: list[list[Question]] = []
    left = 0
    for step in missing:
        oid, query = step.commit.commit, step.commit.path
        patch = changes.get(oid)
        if patch is None and query != "." and not why_not(query):  # a bulk commit
            patch = patches(top, [oid], [query]).get(oid)
        paths = [query] if patch is None else list(patch)
        shown = [path for path in dict.fromkeys([query, *paths]) if path in paths and not why_not(path)]
        item = question(step, messages.get(oid, ""), patch, shown)
        size = len(item.text.encode("utf-8", "replace")) + 200
        if not batches or len(batches[-1]) == COMMITS or size > left:
            batches.append([])
            left = budget
        batches[-1].append(item)
        left -= size
    input_tokens = sum(estimate_usage(request(batch, output_tokens)).input for batch in batches)
    lines = sum(1 + len(item.paths) for batch in batches for item in batch)
    usage = Usage(input_tokens, _LINE_TOKENS * lines, estimated=True)
    return SummaryPlan(tuple(map(tuple, batches)), usage, output_tokens)


def summarize_commits(
    todo: SummaryPlan,
    model: Model,
    meter: Meter,
    layout: Layout,
    *,
    outcome: SummaryOutcome,
    on_batch: Callable[[int, int], None] = lambda done, total: None,
    on_wait: OnWait = lambda seconds, reason: None,
) -> None:
    """Ask the model for summaries, and save each answer at once in its file and in `outcome`.

    Both are thus complete even after an interrupt. A failed call saves nothing. `on_batch` is called with the number of
    commits done and the total. Raises what `complete` raises, and Refused if an answer cannot be saved.
    """
    from repoagent.llm.complete import complete
    from repoagent.llm.model import public_spec

    done = 0
    ensure_root(layout)
    for batch in todo.batches:
        on_batch(done, todo.commits)
        reply = complete(model, request(batch, todo.output_tokens), meter, on_wait=on_wait)
        by_commit = answers(reply.text, batch)
        name = public_spec(reply.model or model.spec)
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        for item in batch:
            if (answer := by_commit.get(item.commit)) is None:
                outcome.garbled.append(item.commit)
                continue
            summary = CommitSummary(item.commit, *answer, name, date)
            write_summary(layout.summaries, summary)
            outcome.summaries[item.commit] = summary
        done += len(batch)
