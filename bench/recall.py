"""Compare the search of memories with substrings and FTS5: `python -m bench.recall --repo PATH...`.

Memories, one per file, are made from the history up to a commit. Questions are of three kinds: subjects of later
commits without the names of their files (later), half of the words of a remembered text (item), and names in code,
split into words (name). `--speed N` measures instead how fast N memories are indexed and searched.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median

from bench.options import REPOSITORIES, options
from bench.origins import git, name_of
from repoagent.memory.search.index import query_index, snapshot_files
from repoagent.memory.search.search import SearchOptions, answer_query, search_memories
from repoagent.storage.layout import Layout

# Memories and questions from a real history

MOST_COMMITS = 6_000
MOST_FILES = 30  # of a commit; larger commits are ignored
LATER = 0.2  # the newest share of the commits, which later questions are about
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
    """A text in the memory of a file."""

    file: str
    day: str
    text: str
    kind: str  # "edit" or "note"


@dataclass(frozen=True)
class Question:
    """`answers` are the right files; `kind` is a key of KINDS; `day` is when the question is asked (YYYY-MM-DD)."""

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
    """Make memories from all but the newest LATER of the commits, and at most `most` questions of each kind."""
    commits = _commits(repository)
    cut = int(len(commits) * (1 - LATER))
    before, after = commits[:cut], commits[cut:]
    texts = tuple(text for commit in before for text in _texts(commit))
    known = {text.file for text in texts}
    rng = random.Random(seed)
    questions = [
        *_later(after, known, most, rng),
        *_remembered(before, most, rng),
        *_names(texts, most, rng, day=before[-1].day if before else ""),
    ]
    return Corpus(name_of(repository), texts, tuple(questions))


def write(corpus: Corpus, root: Path) -> None:
    """Write the memories to `root` as repoagent stores them, in a folder per file."""
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
    """The newest commits, oldest first, without merges and commits of more than MOST_FILES."""
    form = "--format=%x01%H%x02%cs%x02%s%x02%b%x03"
    log = git(repository, "log", "--no-merges", "--name-only", f"-n{MOST_COMMITS}", form)
    commits = []
    for entry in log.decode(errors="replace").split("\x01")[1:]:
        head, _, rest = entry.partition("\x03")
        commit, day, subject, body = head.split("\x02", 3)
        files = tuple(line for line in rest.split("\n") if line)
        if 0 < len(files) <= MOST_FILES and subject.strip():
            commits.append(Commit(commit, day, subject.strip(), _paragraph(body), files))
    return commits[::-1]


def _paragraph(body: str) -> str:
    first = " ".join(body.strip().split("\n\n")[0].split())
    return "" if len(first) < 20 or re.match(r"[A-Z][\w-]+: |git-svn-id|\(cherry", first) else first[:1000]


def _texts(commit: Commit) -> list[Text]:
    edits = [Text(file, commit.day, commit.subject, "edit") for file in commit.files]
    return edits + [Text(file, commit.day, commit.note, "note") for file in commit.files if commit.note]


def _later(commits: Sequence[Commit], known: set[str], most: int, rng: random.Random) -> list[Question]:
    """Subjects of later commits, without the names of their files; the answers are these files."""

    def ask(commit: Commit) -> Question | None:
        answers = frozenset(file for file in commit.files if file in known)
        text = _without_names(commit.subject, commit.files)
        usable = answers and len(commit.files) <= 10 and len(re.findall(r"\w{3,}", text)) >= 3
        return Question("later", text, answers, commit.day) if usable else None

    return _drawn(commits, ask, most, rng)


def _remembered(commits: Sequence[Commit], most: int, rng: random.Random) -> list[Question]:
    """Half of the words of a remembered text, shuffled; the answers are the files of its commit."""

    def ask(commit: Commit) -> Question | None:
        text = commit.note if commit.note and rng.random() < 0.5 else commit.subject
        words = text.split()[:24]
        if len(words) < 6 or len(commit.files) > 5:
            return None
        chosen = rng.sample(words, max(3, len(words) // 2))
        return Question("item", " ".join(chosen), frozenset(commit.files), commits[-1].day)

    return _drawn(commits, ask, most, rng)


def _drawn(
    commits: Sequence[Commit], ask: Callable[[Commit], Question | None], most: int, rng: random.Random
) -> list[Question]:
    """At most `most` questions, about commits in random order."""
    questions: list[Question] = []
    for commit in rng.sample(commits, len(commits)):
        if question := ask(commit):
            questions.append(question)
        if len(questions) == most:
            break
    return questions


def _names(texts: Sequence[Text], most: int, rng: random.Random, day: str) -> list[Question]:
    """Names in code, split into words; the answers are the files with texts that contain them."""
    files_of: dict[str, set[str]] = {}
    for text in texts:
        for name in _NAME.findall(text.text):
            files_of.setdefault(name, set()).add(text.file)
    names = sorted(name for name, files in files_of.items() if len(files) <= 5)
    drawn = rng.sample(names, min(most, len(names)))
    parts = {name: re.sub(r"_|(?<=[a-z0-9])(?=[A-Z])", " ", name).lower() for name in drawn}
    return [Question("name", parts[name], frozenset(files_of[name]), day) for name in drawn]


def _without_names(subject: str, files: Sequence[str]) -> str:
    text = re.sub(r"\(?#\d+\)?", " ", subject)
    for file in files:
        base = file.rpartition("/")[2]
        for name in (file, base, base.partition(".")[0]):
            if name:
                text = re.sub(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", " ", text)
    return " ".join(text.split())


# Methods of search, and how fast many memories are searched

SHOWN = 100  # files of an answer, at most
Method = Callable[[Question], list[str]]  # the files of an answer, best first


def ours(root: Path) -> Method:
    """repoagent's search, as on the day of the question."""
    layout = Layout(root, root.parent / "git")

    def ask(question: Question) -> list[str]:
        how = SearchOptions(limit=200, today=date.fromisoformat(question.day))
        hits = search_memories(layout, question.text, how=how)
        return list(dict.fromkeys(file for hit in hits for file in (hit.file, *hit.also)))[:SHOWN]

    return ask


def substring(corpus: Corpus) -> Method:
    """Files by how many words of the question their texts contain; among equals, the newest first."""
    whole: dict[str, str] = {}
    newest: dict[str, str] = {}
    for text in corpus.texts:
        whole[text.file] = f"{whole.get(text.file, text.file)}\n{text.text}"
        newest[text.file] = max(newest.get(text.file, ""), text.day)
    lower = {file: text.lower() for file, text in whole.items()}

    def ask(question: Question) -> list[str]:
        words = {word for word in re.findall(r"\w+", question.text.lower()) if len(word) > 2}
        scores = {file: sum(word in text for word in words) for file, text in lower.items()}
        fitting = [file for file, score in scores.items() if score]
        fitting.sort(key=lambda file: newest[file], reverse=True)
        return sorted(fitting, key=lambda file: -scores[file])[:SHOWN]

    return ask


def plain(connection: sqlite3.Connection) -> Method:
    """FTS5 with its default tokenizer and unweighted BM25, in the table of `fts5_table`."""

    def ask(question: Question) -> list[str]:
        words = dict.fromkeys(re.findall(r"[^\W_]+", question.text))
        expression = " OR ".join(f'"{word}"' for word in words)
        if not expression:
            return []
        query = "SELECT path FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 200"
        return list(dict.fromkeys(path for (path,) in connection.execute(query, (expression,))))[:SHOWN]

    return ask


def fts5_table(corpus: Corpus) -> sqlite3.Connection:
    """Return a new database in memory whose table `plain` has a row for each text."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE plain USING fts5 (path, text)")
    connection.executemany(
        "INSERT INTO plain VALUES (?, ?)", [(text.file, text.text) for text in corpus.texts]
    )
    connection.execute("INSERT INTO plain (plain) VALUES ('optimize')")
    connection.commit()
    return connection


TIMED = 60  # questions


def speed(corpora: Sequence[Corpus], memories: int) -> None:
    """Print the time to index and search the memories of `memories` files of `corpora`, copied if there are fewer."""
    corpus = _grown(corpora, memories)
    with tempfile.TemporaryDirectory() as top, closing(fts5_table(corpus)) as connection:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        layout = Layout(root, root.parent / "git")
        time.sleep(3)  # files written just before would be read twice
        built = _milliseconds(lambda: query_index(layout, snapshot_files(layout), lambda _: None, print))
        print(f"{memories:,} memories, {len(corpus.texts):,} texts, {_bytes(root / 'memory') / 1e6:.1f} MB")
        print(f"indexed in {built / 1e3:.1f} s, {layout.recall.stat().st_size / 1e6:.1f} MB")
        parts: dict[str, Callable[[Question], object]] = {
            "plain FTS5": plain(connection),
            "a search": lambda question: answer_query(layout, question.text, SearchOptions()),
        }
        figures = _in_turns(parts, corpus.questions)
    for name, (middle, late) in figures.items():
        ratio = middle / figures["plain FTS5"][0]
        print(f"  {name:12} {middle:7.1f} ms, 95 % in {late:7.1f} ms, {ratio:.2f} x plain FTS5")


def _in_turns(
    parts: dict[str, Callable[[Question], object]], questions: Sequence[Question]
) -> dict[str, tuple[float, float]]:
    """Median and 95th percentile of each part's CPU time in ms; the parts alternate on the same questions."""
    samples: dict[str, list[float]] = {name: [] for name in parts}
    later = [question for question in questions if question.kind == "later"]
    for question in later[: TIMED + 3]:
        for name, part in parts.items():
            samples[name].append(_milliseconds(partial(part, question)))
    warm = {name: sorted(times[3:]) for name, times in samples.items()}
    return {name: (median(times), times[len(times) * 95 // 100]) for name, times in warm.items()}


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1e3


def _grown(corpora: Sequence[Corpus], memories: int) -> Corpus:
    by_file: dict[str, list[int]] = {}
    texts = [replace(text, file=f"{one.name}/{text.file}") for one in corpora for text in one.texts]
    for at, text in enumerate(texts):
        by_file.setdefault(text.file, []).append(at)
    grown = []
    for number, file in zip(range(memories), cycle(by_file), strict=False):
        again = number // len(by_file)
        name = file if not again else f"copy{again}/{file}"
        grown += [replace(texts[at], file=name) for at in by_file[file]]
    questions = tuple(question for one in corpora for question in one.questions)
    return Corpus("all", tuple(grown), questions)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


KINDS = {"later": "later subjects", "item": "known items", "name": "names by parts"}
OURS = "repoagent"
Figures = dict[str, tuple[float, float]]  # kind: (MRR, recall@5)


def main() -> None:
    args = options(
        "bench.recall", __doc__,
        repo=([Path], REPOSITORIES),
        questions=(150, "questions of each kind, at most"),
        seed=(1, "seed of the choice of questions"),
        speed=(int, "measure instead how fast this many memories are searched", {"metavar": "N"}),
    )  # fmt: skip
    if args.speed:
        speed([load(repository, args.questions, args.seed) for repository in args.repo], args.speed)
        return
    results: list[dict[str, Figures]] = []
    for repository in args.repo:
        corpus = load(repository, args.questions, args.seed)
        files = len({text.file for text in corpus.texts})
        started = time.process_time()
        results.append(_measured(corpus))
        spent = time.process_time() - started
        print(f"{corpus.name}: {files:,} memories, {len(corpus.texts):,} texts, {len(corpus.questions)} questions, "
              f"{spent:.0f} s\n{table([results[-1]])}", flush=True)  # fmt: skip
    print(f"mean of {len(results)} repositories (MRR / recall@5)\n{table(results)}")


def _measured(corpus: Corpus) -> dict[str, Figures]:
    with tempfile.TemporaryDirectory() as top, closing(fts5_table(corpus)) as texts:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        methods: dict[str, Method] = {
            OURS: ours(root), "substrings": substring(corpus), "plain FTS5": plain(texts),
        }  # fmt: skip
        return {name: figures(method, corpus.questions) for name, method in methods.items()}


def figures(method: Method, questions: Sequence[Question]) -> Figures:
    """Return by kind the mean reciprocal rank of the first right file and the share of right ones in the first five."""
    each: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for question in questions:
        answer = method(question)
        rank = next((at for at, file in enumerate(answer, 1) if file in question.answers), None)
        among = len(question.answers.intersection(answer[:5])) / len(question.answers)
        each[question.kind].append((1 / rank if rank else 0.0, among))
    return {kind: _mean(pairs) for kind, pairs in each.items()}


def table(results: Sequence[Mapping[str, Figures]]) -> str:
    """Return a line per method, with its figures and how many times as high those of repoagent are."""
    lines = ["  " + " " * 26 + "".join(f"{title:26}" for title in KINDS.values()).rstrip()]
    means = {
        method: {kind: _mean([one[method][kind] for one in results if kind in one[method]]) for kind in KINDS}
        for method in results[0]
    }
    for method, mine in means.items():
        cells = []
        for kind in KINDS:
            first, second = mine[kind]
            best = means[OURS][kind]
            ahead = "" if method == OURS else f" x{_ratio(best[0], first)} x{_ratio(best[1], second)}"
            cells.append(f"{first:.3f} / {second:.3f}{ahead}".ljust(26))
        lines.append(f"  {method:26}{''.join(cells)}".rstrip())
    return "\n".join(lines)


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = len(pairs) or 1
    return sum(first for first, _ in pairs) / count, sum(second for _, second in pairs) / count


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else "-"


if __name__ == "__main__":
    main()
