"""Memories and questions from a real history: what its commits said of their files, and later commits to ask about."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.origins import git, name_of

MOST_COMMITS = 6_000
MOST_FILES = 30  # of a commit: a larger one is no answer to a question
LATER = 0.2  # of the commits are asked about
_NAME = re.compile(
    r"\b(?:[a-z]+(?:[A-Z][a-z0-9]+)+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+|[a-z0-9]+(?:_[a-z0-9]+)+)\b"
)


@dataclass(frozen=True)
class Commit:
    id: str
    day: str
    subject: str
    note: str  # the first paragraph of the body
    files: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """One thing that is remembered of a file."""

    file: str
    day: str
    text: str
    kind: str  # "edit" or "note"


@dataclass(frozen=True)
class Question:
    """`answers` are the files that are right; `kind` is "later", "item" or "name"."""

    kind: str
    text: str
    answers: frozenset[str]
    day: str


@dataclass(frozen=True)
class Corpus:
    name: str
    texts: tuple[Text, ...]
    questions: tuple[Question, ...]


def load(repository: Path, most: int, seed: int) -> Corpus:
    """The memories up to a commit, and at most `most` questions of each kind."""
    commits = _commits(repository)
    cut = int(len(commits) * (1 - LATER))
    before, after = commits[:cut], commits[cut:]
    texts = tuple(text for commit in before for text in _texts(commit))
    known = {text.file for text in texts}
    chance = random.Random(seed)
    questions = [
        *_later(after, known, most, chance),
        *_remembered(before, most, chance),
        *_names(texts, most, chance, day=before[-1].day if before else ""),
    ]
    return Corpus(name_of(repository), texts, tuple(questions))


def write(corpus: Corpus, root: Path) -> None:
    """The memories as the product keeps them, one folder for each file."""
    by_file: dict[str, list[Text]] = {}
    for text in corpus.texts:
        by_file.setdefault(text.file, []).append(text)
    for number, (file, texts) in enumerate(by_file.items()):
        folder = root / "memory" / f"{re.sub(r'[^a-z0-9]+', '-', file.lower())[-40:]}-{number:06}"
        folder.mkdir(parents=True)
        (folder / "identity.json").write_text(json.dumps({"version": 1, "path": file}))
        edits = [
            {"version": 1, "id": f"e{at}", "time": f"{text.day}T12:00:00+00:00", "path": file, "request": text.text,
             "source_blob": "", "result_blob": "", "state": "committed"}
            for at, text in enumerate(texts) if text.kind == "edit"
        ]  # fmt: skip
        (folder / "edits.jsonl").write_text("".join(json.dumps(edit) + "\n" for edit in edits))
        notes = [f"- {text.day}: {text.text}\n" for text in texts if text.kind == "note"]
        if notes:
            (folder / "notes.md").write_text("# Notes\n\n" + "".join(notes), errors="replace")


def _commits(repository: Path) -> list[Commit]:
    """The newest commits, oldest of them first; no merges, none of many files."""
    form = "--format=%x01%H%x02%cs%x02%s%x02%b%x03"
    log = git(repository, "log", "--no-merges", "--name-only", f"-n{MOST_COMMITS}", form)
    found = []
    for entry in log.decode(errors="replace").split("\x01")[1:]:
        head, _, rest = entry.partition("\x03")
        commit, day, subject, body = head.split("\x02", 3)
        files = tuple(line for line in rest.split("\n") if line)
        if 0 < len(files) <= MOST_FILES and subject.strip():
            found.append(Commit(commit, day, subject.strip(), _paragraph(body), files))
    return found[::-1]


def _paragraph(body: str) -> str:
    first = " ".join(body.strip().split("\n\n")[0].split())
    return "" if len(first) < 20 or re.match(r"[A-Z][\w-]+: |git-svn-id|\(cherry", first) else first[:1000]


def _texts(commit: Commit) -> list[Text]:
    found = [Text(file, commit.day, commit.subject, "edit") for file in commit.files]
    return found + [Text(file, commit.day, commit.note, "note") for file in commit.files if commit.note]


def _later(commits: Sequence[Commit], known: set[str], most: int, chance: random.Random) -> list[Question]:
    """Subjects of later commits without the names of their files: which files are meant?"""

    def ask(commit: Commit) -> Question | None:
        answers = frozenset(file for file in commit.files if file in known)
        text = _without_names(commit.subject, commit.files)
        clear = answers and len(commit.files) <= 10 and len(re.findall(r"\w{3,}", text)) >= 3
        return Question("later", text, answers, commit.day) if clear else None

    return _asked(commits, ask, most, chance)


def _remembered(commits: Sequence[Commit], most: int, chance: random.Random) -> list[Question]:
    """Half of the words of something that is remembered, in another order: what was it?"""

    def ask(commit: Commit) -> Question | None:
        text = commit.note if commit.note and chance.random() < 0.5 else commit.subject
        words = text.split()[:24]
        if len(words) < 6 or len(commit.files) > 5:
            return None
        chosen = chance.sample(words, max(3, len(words) // 2))
        return Question("item", " ".join(chosen), frozenset(commit.files), commits[-1].day)

    return _asked(commits, ask, most, chance)


def _asked(
    commits: Sequence[Commit], ask: Callable[[Commit], Question | None], most: int, chance: random.Random
) -> list[Question]:
    """At most `most` questions, of commits in any order."""
    found: list[Question] = []
    for commit in chance.sample(commits, len(commits)):
        if question := ask(commit):
            found.append(question)
        if len(found) == most:
            break
    return found


def _names(texts: Sequence[Text], most: int, chance: random.Random, day: str) -> list[Question]:
    """A name of code, by its parts: where was it spoken of?"""
    places: dict[str, set[str]] = {}
    for text in texts:
        for name in _NAME.findall(text.text):
            places.setdefault(name, set()).add(text.file)
    names = sorted(name for name, files in places.items() if len(files) <= 5)
    drawn = chance.sample(names, min(most, len(names)))
    parts = {name: re.sub(r"_|(?<=[a-z0-9])(?=[A-Z])", " ", name).lower() for name in drawn}
    return [Question("name", parts[name], frozenset(places[name]), day) for name in drawn]


def _without_names(subject: str, files: Sequence[str]) -> str:
    text = re.sub(r"\(?#\d+\)?", " ", subject)
    for file in files:
        base = file.rpartition("/")[2]
        for name in (file, base, base.partition(".")[0]):
            if name:
                text = re.sub(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", " ", text)
    return " ".join(text.split())
