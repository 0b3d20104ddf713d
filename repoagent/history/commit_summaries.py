"""Summarize commits with a model, in batches; each answer is stored as soon as it arrives.

Summaries that exist already, by commit id, by patch id or in git notes, are not requested again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

from repoagent.dataclass import dataclass
from repoagent.git.process import GitError, git
from repoagent.history.commit_details import BULK, Step
from repoagent.history.log import offline
from repoagent.history.summary_store import (
    LINE,
    Summary,
    has_patches,
    one_line,
    read_by_patch,
    read_notes,
    read_summary,
    write_summary,
)
from repoagent.llm.client import OnWait, complete, ignore
from repoagent.llm.model import Message, Model, Part, Request, Usage, printable, public, without_thought
from repoagent.llm.usage import Meter, Price, estimate
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.secrets import without_secrets

_LOG = (
    "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.suppressBlankEmpty=false",
    "log", "--no-walk=unsorted", "--stdin", "-z", "--raw", "-p", "-M", "-l1000", "-U3", "--inter-hunk-context=0",
    "--no-abbrev", "--full-index", "--diff-algorithm=myers", "--indent-heuristic", "--no-notes", "--no-decorate",
    "--no-color", "--no-ext-diff", "--no-textconv", "--no-show-signature",
)  # fmt: skip
_MESSAGES = (
    "log", "--no-walk=unsorted", "--stdin", "-z", "--no-notes", "--no-decorate", "--no-color", "--no-patch",
    "--no-show-signature", "--format=%H%x00%b",
)  # fmt: skip
_RAW = re.compile(rb"\n?:\d+ \d+ [0-9a-f]+ [0-9a-f]+ ([A-Z])\d*")
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_BINARY = re.compile(rb"^Binary files ", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """The change of one commit to its first parent: `files` is (path in it, its part of the patch)."""

    commit: str
    files: tuple[tuple[str, bytes], ...]
    whole: bytes


def patches(top: Path, commits: Sequence[str], paths: Collection[str] = ()) -> dict[str, Patch]:
    """The patches of `commits`, of `paths` alone where some are given; a merge has none. Nothing is fetched: in a
    clone without the blobs there are no patches."""
    if not commits:
        return {}
    mark = token_hex(8)  # no name of a file and no line of one can hold it
    try:
        data = offline(top, *_LOG, f"--format={mark}%H", *(("--", *paths) if paths else ()), names=commits)
    except GitError:  # something is not here: of one commit, perhaps, and not of the others
        alone = [patches(top, [commit], paths) for commit in commits] if len(commits) > 1 else []
        return {commit: patch for found in alone for commit, patch in found.items()}
    heads = list(re.finditer(rb"%s([0-9a-f]{40}(?:[0-9a-f]{24})?)\0" % mark.encode(), data))
    ends = [head.start() for head in heads[1:]] + [len(data)]
    found = [_patch(head[1].decode(), data[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
    return {patch.commit: patch for patch in found}


def patch_ids(top: Path, changes: Mapping[str, Patch]) -> dict[str, str]:
    """git's stable patch ids, by commit: the same for a commit that was rebased without a change of its patch. None
    for a commit with a binary file, of which a patch says nothing. One call of git."""
    told = b"".join(
        b"commit %s\n%s" % (patch.commit.encode(), patch.whole)
        for patch in changes.values()
        if patch.whole and not _BINARY.search(patch.whole)
    )
    if not told:
        return {}
    lines = git(top, "patch-id", "--stable", stdin=told).decode().splitlines()
    return {commit: patch for patch, _, commit in (line.partition(" ") for line in lines)}


def bodies(top: Path, commits: Sequence[str]) -> dict[str, str]:
    """What the messages of `commits` say below the subject. One call of git."""
    tokens = offline(top, *_MESSAGES, names=commits).split(b"\0") if commits else []
    wanted = set(commits)
    return {
        oid.decode(): text.decode("utf-8", "replace")
        for oid, text in pairwise(tokens)
        if _named(oid) in wanted
    }


def _named(oid: bytes) -> str:
    return oid.decode("ascii", "replace")


def _patch(commit: str, data: bytes) -> Patch:
    raw, _, whole = data.partition(b"\0\0")
    tokens = raw.split(b"\0")
    paths: list[str] = []
    place = 0
    while place < len(tokens):
        if entry := _RAW.fullmatch(tokens[place]):
            renamed = entry[1] in (b"R", b"C")
            paths += [os.fsdecode(token) for token in tokens[place + 1 + renamed : place + 2 + renamed]]
            if entry[1] == b"T":  # shown as a file that goes and one that comes
                paths += paths[-1:]
            place += 1 + renamed
        place += 1
    starts = [match.start() for match in _FILE.finditer(whole)]
    ends = [*starts[1:], len(whole)][: len(starts)]
    parts = [whole[start:end] for start, end in zip(starts, ends, strict=True)]
    return Patch(commit, tuple(zip(paths, parts, strict=False)) if len(paths) == len(parts) else (), whole)


BODY = 600  # characters of a message below its subject
COMMIT = 8_000  # bytes of the patch of one commit
FIRST = 5_000  # of these, for the file that was asked about
FILES = (
    8  # files of a commit that get a line of their own; of a larger commit only the file that was asked about
)
OTHERS = 20  # further paths that are named
LEAST_ANSWER = 300  # bytes of a patch, or it is left out
LINE_TOKENS = 45  # of a line of the answer
_THINKING = 4_000  # tokens of a reply that a model may use up before its answer
_ANSWER = re.compile(r"[ \t]*(?:[-*][ \t]+)?\**(\d{1,3})\.(\d{1,3})\**[ \t]*[:.)][ \t*]*(.*?)[ \t]*")
_INDEX = re.compile(r"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", re.MULTILINE)
_TOO_LONG = 2 * LINE


@dataclass(frozen=True)
class Question:
    """A commit that is asked about: `paths` get a line each, in this order; `path` is the one that must have it ("" for
    a directory). `text` is what a model is shown of it; `patch` its patch id."""

    commit: str
    path: str
    paths: tuple[str, ...]
    text: str
    patch: str = ""

    @property
    def lines(self) -> int:
        """How many lines the answer has of it."""
        return 1 + len(self.paths)


@dataclass(frozen=True)
class Answer:
    """What was said of one commit."""

    line: str
    files: dict[str, str]


def question(
    step: Step, body: str, patch: Patch | None, shown: Sequence[str], *, patch_id: str = ""
) -> Question:
    """What is asked about a commit. `shown` are the paths of it that a model may see. A commit of at most 8 files gets
    a line for each, so that none of them is ever paid for again; of a larger one, the file that was asked about."""
    commit = step.commit
    parts = {path: part for path, part in patch.files if path in shown} if patch is not None else {}
    path = commit.path if commit.path in shown else ""
    few = len(shown) <= FILES
    paths = [path] if path else []
    if few:
        paths += [name for name in parts if name != path]
    lines = [f"subject: {one_line(commit.subject, 300)}"]
    if told := _cut(printable(body.strip()), BODY):
        lines.append(f"message:\n{told}")
    if not few or (step.files or 0) > FILES:
        others = [one_line(name, 80) for name in shown if name != path][:OTHERS]
        lines.append(
            f"changes {step.files or len(shown)} files{', among them ' if others else ''}{', '.join(others)}"
        )
    left = COMMIT
    for name in paths if paths else list(parts)[:FILES]:
        if name not in parts or left < LEAST_ANSWER:
            lines.append(f"(diff of {one_line(name, 80)} omitted)")
            continue
        share = FIRST if name == path else max(LEAST_ANSWER, COMMIT // max(2, len(paths)))
        part = _cut(printable(_diff(parts[name])), min(share, left))
        left -= len(part)
        lines.append(part)
    return Question(commit.commit, path, tuple(paths), "\n".join(lines), patch_id)


def request(questions: Sequence[Question], max_output_tokens: int) -> Request:
    """One call about all of `questions`. The key is made of the commits, so that a recording holds while the prompt is
    worded anew."""
    mark = sha256("\0".join(question.text for question in questions).encode("utf-8", "replace")).hexdigest()
    mark = next(
        mark[at : at + 8] for at in range(56) if not any(mark[at : at + 8] in q.text for q in questions)
    )
    blocks, asked = [], []
    for number, one in enumerate(questions, 1):
        label = f'number="{number}" id="{mark}"'
        blocks.append(f'<commit {label}>\n{one.text}\n</commit id="{mark}">\n')
        asked.append(f"{number}.0: what commit {number} did as a whole")
        asked += [
            f"{number}.{place}: what it did to {one_line(path, 150)}"
            for place, path in enumerate(one.paths, 1)
        ]
    text = "\n".join([*blocks, "Answer with these lines:", *asked, ""])
    key = json.dumps({"summaries": [[one.commit, *one.paths] for one in questions]}, ensure_ascii=True)
    system = (files("repoagent.history") / "prompts" / "commit_summary.md").read_text(encoding="utf-8")
    lines = sum(one.lines for one in questions)
    return Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(without_secrets(text), "commits"),)),),
        min(max_output_tokens, _THINKING + LINE_TOKENS * 2 * lines),
        key,
    )


def answers(reply: str, questions: Sequence[Question]) -> dict[str, Answer]:
    """What `reply` says, by commit id. A commit is left out where its own line or that of the file asked about is
    missing, is there twice, is empty, or is too long to be one line."""
    said: dict[tuple[int, int], set[str]] = {}
    for text in without_thought(reply).split("\n"):
        if found := _ANSWER.fullmatch(text.rstrip("\r")):
            said.setdefault((int(found[1]), int(found[2])), set()).add(found[3])
    good: dict[str, Answer] = {}
    for number, one in enumerate(questions, 1):
        lines = {place: _sound(said.get((number, place), set())) for place in range(one.lines)}
        needed = [0] + ([one.paths.index(one.path) + 1] if one.path in one.paths else [])
        if all(lines[place] for place in needed):
            told = {path: lines[place] for place, path in enumerate(one.paths, 1) if lines[place]}
            good[one.commit] = Answer(lines[0], told)
    return good


def _sound(said: set[str]) -> str:
    """The one line that was said, or ""."""
    if len(said) != 1:
        return ""
    (text,) = said
    if len(text) > _TOO_LONG or text.startswith(("what it did to ", "what commit ")):
        return ""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "`\"'":
        text = text[1:-1]
    return one_line(without_secrets(text))


def _diff(data: bytes) -> str:
    """The patch of one file without what tells a model nothing."""
    return _INDEX.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n"), count=1).strip("\n")


def _cut(text: str, most: int) -> str:
    """The beginning of `text`, whole lines, about `most` characters."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return (kept.rpartition("\n")[0] or kept) + "\n(truncated)"


@dataclass(frozen=True)
class KnownSummaries:
    """`summaries` by commit id, and of the others their patches and patch ids as far as they were looked at."""

    summaries: Mapping[str, Summary]
    patches: Mapping[str, Patch]
    ids: Mapping[str, str]


def find_known(
    top: Path,
    place: Layout,
    steps: Sequence[Step],
    *,
    share: bool = False,
    thorough: bool = False,
    warn: Warn = to_stderr,
) -> KnownSummaries:
    """The summaries of `steps` that nobody has to pay for. With `share`, those in the notes too. What was found by
    its patch or in a note is kept under its commit id.

    Patches are computed only where they can help: where a summary is kept that has one, or, `thorough`, when a model
    is about to be asked. Raises Refused for a folder that is not a real one.
    """
    wanted = {step.commit.commit: step for step in steps}
    found: dict[str, Summary] = {}
    for commit in wanted:
        if (summary := read_summary(place.summaries, commit, warn)) is not None:
            found[commit] = summary
    missing = [commit for commit in wanted if commit not in found]
    noted = read_notes(top, missing) if share and missing else {}
    for commit, summary in noted.items():
        found[commit] = _kept(place, summary)
    missing = [commit for commit in missing if commit not in found and not _is_bulk(wanted[commit])]
    if not missing or not (thorough or has_patches(place.summaries)):
        return KnownSummaries(found, {}, {})
    changes = patches(top, missing)
    try:
        ids = patch_ids(top, changes)
    except GitError as error:
        warn(f"could not compare the patches of these commits: {error}")
        ids = {}
    for commit, patch in ids.items():
        if (summary := read_by_patch(place.summaries, patch, warn)) is not None:
            found[commit] = _kept(place, replace(summary, commit=commit))
    return KnownSummaries(found, changes, ids)


def _kept(place: Layout, summary: Summary) -> Summary:
    ensure(place)
    write_summary(place.summaries, summary)
    return summary


def _is_bulk(step: Step) -> bool:
    return step.files is not None and step.files > BULK


COMMITS = 10  # of one call
BYTES = 48_000  # of one call
LEAST_PROMPT = 4_000
OUTPUT_TOKENS = 16_000
Shown = Callable[[str], object]


@dataclass(frozen=True)
class Plan:
    """What is to be asked, a tuple for each call, and about how many tokens that is."""

    batches: tuple[tuple[Question, ...], ...]
    usage: Usage
    output_tokens: int = OUTPUT_TOKENS

    @property
    def commits(self) -> int:
        """How many commits are asked about."""
        return sum(map(len, self.batches))

    def cost(self, price: Price | None) -> float | None:
        """About how many US dollars it takes; None where the price is not known."""
        return None if price is None else price.of(self.usage)


@dataclass
class Outcome:
    """What came of a plan: the new summaries, and the commits whose lines were missing or garbled."""

    summaries: dict[str, Summary] = field(default_factory=dict)
    garbled: list[str] = field(default_factory=list)


def plan(
    top: Path,
    steps: Sequence[Step],
    known: KnownSummaries,
    *,
    why_not: Callable[[str], str | None],
    context_tokens: int | None = None,
    output_tokens: int = OUTPUT_TOKENS,
) -> Plan:
    """The questions about those of `steps` that have no summary. `why_not` says why a path may not be sent;
    `context_tokens` is what the model takes in. Raises GitError."""
    missing = [step for step in steps if step.commit.commit not in known.summaries]
    ids = [step.commit.commit for step in missing]
    changes: dict[str, Patch] = dict(known.patches)
    for commit in [step.commit for step in missing if step.commit.commit not in changes]:  # a bulk commit
        allowed = commit.path == "." or not why_not(commit.path)
        if allowed and commit.path != ".":
            changes |= patches(top, [commit.commit], [commit.path])
    messages = bodies(top, ids)
    room = min(BYTES, max(LEAST_PROMPT, (context_tokens or BYTES) * 3 // 2))
    questions = [
        _question(step, messages, changes.get(step.commit.commit), known, why_not) for step in missing
    ]
    batches = _batches(questions, room)
    calls = [estimate(request(batch, output_tokens)) for batch in batches]
    written = LINE_TOKENS * sum(one.lines for one in questions)
    usage = Usage(sum(call.input for call in calls), written, estimated=True)
    return Plan(batches, usage, output_tokens)


def summarize(
    todo: Plan,
    model: Model,
    meter: Meter,
    place: Layout,
    *,
    outcome: Outcome,
    on_batch: Callable[[int, int], None] = ignore,
    on_wait: OnWait = ignore,
) -> None:
    """Ask, and keep each answer at once: `outcome` grows, and holds what was paid for whatever ends this. Nothing is
    kept of a call that failed. `on_batch` gets the commits done and all of them.

    Raises ModelError, LimitReached, Refused; ^C goes through.
    """
    done = 0
    ensure(place)
    for batch in todo.batches:
        on_batch(done, todo.commits)
        reply = complete(model, request(batch, todo.output_tokens), meter, on_wait=on_wait)
        found = answers(reply.text, batch)
        name, now = (
            public(reply.model or model.spec),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        for one in batch:
            answer = found.get(one.commit)
            if answer is None:
                outcome.garbled.append(one.commit)
                continue
            summary = Summary(one.commit, answer.line, answer.files, one.patch, name, now)
            write_summary(place.summaries, summary)
            outcome.summaries[one.commit] = summary
        done += len(batch)


def _question(
    step: Step,
    messages: Mapping[str, str],
    patch: Patch | None,
    known: KnownSummaries,
    why_not: Callable[[str], str | None],
) -> Question:
    commit = step.commit
    paths = [path for path, _ in patch.files] if patch is not None else [commit.path]
    shown = [path for path in dict.fromkeys([commit.path, *paths]) if path in paths and not why_not(path)]
    patch_id = known.ids.get(commit.commit, "")
    return question(step, messages.get(commit.commit, ""), patch, shown, patch_id=patch_id)


def _batches(questions: Sequence[Question], room: int) -> tuple[tuple[Question, ...], ...]:
    batches: list[list[Question]] = []
    left = 0
    for one in questions:
        size = len(one.text.encode("utf-8", "replace")) + 200
        if not batches or len(batches[-1]) == COMMITS or size > left:
            batches.append([])
            left = room
        batches[-1].append(one)
        left -= size
    return tuple(map(tuple, batches))
