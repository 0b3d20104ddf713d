"""The question to a model about several commits, and its answer, read strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.history.steps import Step
from repoagent.history.summaries.patches import Patch
from repoagent.history.summaries.store import LINE, one_line
from repoagent.llm import Message, Part, Request
from repoagent.llm.quoting import printable, without_thought
from repoagent.store.secrets import without_secrets

BODY = 600  # characters of a message below its subject
COMMIT = 8_000  # bytes of the patch of one commit
FIRST = 5_000  # of these, for the file that was asked about
FILES = (
    8  # files of a commit that get a line of their own; of a larger commit only the file that was asked about
)
OTHERS = 20  # further paths that are named
LEAST = 300  # bytes of a patch, or it is left out
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
        if name not in parts or left < LEAST:
            lines.append(f"(the diff of {one_line(name, 80)} is not shown)")
            continue
        share = FIRST if name == path else max(LEAST, COMMIT // max(2, len(paths)))
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
    system = (files("repoagent.history.summaries") / "prompt.md").read_text(encoding="utf-8")
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
    return (kept.rpartition("\n")[0] or kept) + "\n(cut)"
