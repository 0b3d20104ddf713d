"""How often the run rules of `repoagent review` speak on real commits, and how many injected faults they find:
`python -m bench.review.run --repo PATH... [--commits 500] [--faults 40] [--examples 40]`

alarms     findings on the last `--commits` commits (no merges) of each history. What is in a history has mostly passed
           its tests, so that nearly every finding is to be read (`--examples`) and judged.
found      of `--faults` faults of each kind, put into a file of the newest commit each, one at a time and staged
baseline   the same counts of what anyone has at hand: `git diff --check` for conflict markers, `python -m py_compile`
           for Python that no longer parses, one regular expression each for keys and calls left over from debugging

A repository is cloned to a folder of its own, which shares its objects, so that nothing is written to it.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.options import REPOSITORIES, options
from bench.origins import git, name_of, shared_clone
from repoagent.config.layers import load
from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.review.change import Change
from repoagent.review.checks.file_origin import is_test
from repoagent.review.checks.run import static_findings
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.rules import RULES

STATIC = [rule.id for rule in RULES.values() if rule.source == "static"]
_KEY = re.compile(rb"(?i)(?:api_?key|secret|token|password|passwd)\W{0,4}[=:]\W{0,3}[\w/+.-]{8,}")
_DEBUG = re.compile(
    rb"\bprint\(|console\.log\(|\bfmt\.Println\(|\bdbg!\(|breakpoint\(\)|\bpdb\b|^\s*debugger\b"
)


def main() -> None:
    given = options(
        "bench.review.static", __doc__,
        repo=([Path], REPOSITORIES),
        commits=(500, "of each repository"),
        faults=(40, "of each kind"),
        examples=(0, "findings of each rule to print"),
    )  # fmt: skip
    alarms: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    commits = 0
    for repository in given.repo:
        name = name_of(repository)
        with shared_clone(repository, checkout=True) as top:
            worktree = open_worktree(top)
            found, reviewed, seconds = _replay(worktree, name, given.commits, given.examples)
            put = _inject(worktree, given.faults)
        commits += reviewed
        alarms += found
        tried += put
        counts = ", ".join(f"{rule} {found[rule]}" for rule in STATIC)
        print(f"{name}: {reviewed} commits in {seconds:.0f} s; {counts}", flush=True)
    print(f"\nall {len(given.repo)} repositories: {commits:,} commits")
    print(f"{'rule':18}{'alarms':>8}{'baseline':>10}{'faults':>8}{'found':>8}{'baseline':>10}")
    for rule in STATIC:
        faults = tried[rule, "faults"]
        print(
            f"{rule:18}{alarms[rule]:>8}{_or_none(alarms, rule, 'baseline'):>10}{faults:>8}"
            f"{_share(tried[rule, 'found'], faults):>8}{_share(tried[rule, 'baseline'], faults, rule):>10}"
        )


def _or_none(counts: Counter[str], rule: str, what: str) -> str:
    return f"{counts[f'{rule} {what}']:,}" if rule in _BASELINES else "-"


def _share(count: int, of: int, rule: str = "") -> str:
    return f"{count / of:.0%}" if of and (not rule or rule in _BASELINES) else "-"


def _replay(worktree: WorkTree, name: str, count: int, examples: int) -> tuple[Counter[str], int, float]:
    """The alarms on the last `count` commits, ours by rule and those of the baselines."""
    settings = load(layout(worktree), worktree.top, flags={f"review.rules.{rule}": "note" for rule in STATIC})
    ids = git(worktree.top, "log", "--no-merges", f"--max-count={count}", "--format=%H").decode().split()
    found: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    begun, reviewed, spent = time.monotonic(), 0, 0.0
    for commit in ids:
        change, _ = read_change(worktree, None, ChangeSelector("commit", commit))
        if not change.base:
            continue
        reviewed += 1
        begun = time.monotonic()
        for finding in static_findings(change, worktree, settings).findings:
            found[finding.rule] += 1
            shown[finding.rule] += 1
            if shown[finding.rule] <= examples:
                quote = finding.quote.strip()[:100]
                print(f"  {name} {commit[:10]} {finding.rule}: {finding.title}  | {quote}")
        spent += time.monotonic() - begun
        for rule, baseline in _BASELINES.items():
            found[f"{rule} baseline"] += baseline(worktree, change)
    return found, reviewed, spent


def _check(worktree: WorkTree, change: Change) -> int:
    """Files in which `git diff --check` sees a conflict marker."""
    compared = ["--cached"] if not change.head else [change.base, change.head]
    done = subprocess.run(
        ["git", "-C", str(worktree.top), "diff", "--check", *compared], stdout=subprocess.PIPE, check=False
    ).stdout.decode(errors="replace")
    return len({line.partition(":")[0] for line in done.splitlines() if "leftover conflict marker" in line})


def _compile(worktree: WorkTree, change: Change) -> int:
    found = 0
    for file in change.files:
        if file.path.endswith(".py") and (text := change.read_new(file)) is not None:
            try:
                compile(text, file.path, "exec", ast.PyCF_ONLY_AST)
            except (SyntaxError, ValueError):
                found += 1
    return found


def _lines_with(pattern: re.Pattern[bytes]) -> Callable[[WorkTree, Change], int]:
    def files(worktree: WorkTree, change: Change) -> int:
        return sum(
            any(pattern.search(line) for hunk in change.read_lines(file) for line in hunk.added)
            for file in change.files
        )

    return files


_BASELINES: dict[str, Callable[[WorkTree, Change], int]] = {
    "conflict-marker": _check,
    "parse-error": _compile,
    "secret": _lines_with(_KEY),
    "debug-leftover": _lines_with(_DEBUG),
}


def _inject(worktree: WorkTree, count: int) -> Counter[tuple[str, str]]:  # type: ignore[type-var]
    """Put each kind of fault into `count` files of the newest commit, one after another, and review what is staged."""
    settings = load(layout(worktree), worktree.top, flags={f"review.rules.{rule}": "note" for rule in STATIC})
    head = git(worktree.top, "rev-parse", "HEAD").decode().strip()
    paths = [
        path
        for path in git(worktree.top, "ls-files", "-z").decode("utf-8", "replace").split("\0")
        if path.endswith(tuple(_SUFFIXES)) and not is_test(path) and (worktree.top / path).is_file()
    ]
    source = random.Random(1)
    found: Counter[tuple[str, str]] = Counter()
    for rule, fault in _FAULTS.items():
        done = 0
        for path in source.sample(paths, len(paths)):
            if done == count:
                break
            target = worktree.top / path
            try:
                text = target.read_text()
            except UnicodeDecodeError:
                continue
            new = fault(path, text, source)
            if new is None:
                continue
            done += 1
            target.write_text(new)
            git(worktree.top, "add", "--", path)
            change, _ = read_change(worktree, head, ChangeSelector("staged"))
            findings = static_findings(change, worktree, settings).findings
            found[rule, "faults"] += 1
            found[rule, "found"] += any(one.rule == rule and one.location.path == path for one in findings)
            if rule in _BASELINES:
                found[rule, "baseline"] += bool(_BASELINES[rule](worktree, change))
            target.write_text(text)
            git(worktree.top, "add", "--", path)
    return found


def _conflict(path: str, text: str, source: random.Random) -> str | None:
    lines = text.splitlines(keepends=True)
    if len(lines) < 20:
        return None
    at = source.randrange(5, len(lines) - 5)
    return "".join(
        [*lines[:at], "<<<<<<< HEAD\n", *lines[at : at + 2], "=======\n", *lines[at + 1 : at + 3], ">>>>>>> topic\n",
         *lines[at + 2 :]]
    )  # fmt: skip


def _broken(path: str, text: str, source: random.Random) -> str | None:
    """One bracket less."""
    places = [match.start() for match in re.finditer(r"[(){}\[\]](?=[^\n\"'`]*$)", text, re.MULTILINE)]
    places = [at for at in places if not re.search(r"[\"'`#*]|//", text[text.rfind("\n", 0, at) + 1 : at])]
    if not places:
        return None
    at = source.choice(places)
    return text[:at] + text[at + 1 :]


def _secret(path: str, text: str, source: random.Random) -> str | None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

    def some(size: int) -> str:
        return "".join(source.choices(letters, k=size))

    value = source.choice([f"ghp_{some(36)}", f"AKIA{some(16).upper()}", f"sk_live_{some(24)}", some(40)])
    name = source.choice(["API_KEY", "auth_token", "client_secret", "password"])
    ending = "" if path.endswith(".py") else ";"
    return f'{text}\n{name} = "{value}"{ending}\n'


def _debugging(path: str, text: str, source: random.Random) -> str | None:
    call = _CALLS.get(path.rpartition(".")[2])
    places = list(re.finditer(r"^([ \t]+)\S[^\n]*;?\n", text, re.MULTILINE))
    if call is None or not places:
        return None
    match = source.choice(places)
    return text[: match.start()] + f"{match[1]}{call}\n" + text[match.start() :]


_CALLS = {"py": 'print("here", locals())', "js": 'console.log("here");', "ts": 'console.log("here");',
          "go": 'fmt.Println("here")', "rs": "dbg!(1);"}  # fmt: skip
_SUFFIXES = (".py", ".js", ".ts", ".go", ".rs", ".c", ".h")


def _renamed(path: str, text: str, source: random.Random) -> str | None:
    """A function of Python, JavaScript, Go or C gets another name, where it is defined only."""
    pattern = _DEFINITIONS.get(path.rpartition(".")[2])
    matches = list(re.finditer(pattern, text, re.MULTILINE)) if pattern else []
    matches = [  # called in its own file, and defined once
        match
        for match in matches
        if re.search(rf"^(?!\w).*(?<!\w)(?:exports\.)?{match[1]}\(", text, re.MULTILINE)
        and len(re.findall(rf"(?:def|class|func|exports\.|\w) ?{match[1]}\b *[(=:]", text)) == 1
    ]
    if not matches:
        return None
    match = source.choice(matches)
    return text[: match.start(1)] + f"{match[1]}_renamed" + text[match.end(1) :]


_DEFINITIONS = {
    "py": r"^(?:def|class) (\w{4,})",
    "js": r"^exports\.(\w{4,}) =",
    "go": r"^func (\w{4,})\(",
    "c": r"^(?!run)\w[\w *]*?\b(\w{6,})\([^;]*$",
}
_FAULTS = {
    "conflict-marker": _conflict, "parse-error": _broken, "secret": _secret, "removed-symbol": _renamed,
    "debug-leftover": _debugging,
}  # fmt: skip


if __name__ == "__main__":
    main()
