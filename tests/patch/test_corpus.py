"""The corpus of bench/patch on a small repository, and a judge that can say no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.origins import Origin
from bench.patch.__main__ import main
from bench.patch.appliers import (
    APPLIED,
    REFUSED,
    RIGHT,
    WRONG,
    Result,
    available,
    baseline,
    diff_of,
    ours,
    verdict,
    wrong_with,
)
from bench.patch.corpus import COMBINATIONS, REFUSALS, SLIPS, kinds, make, plan
from bench.patch.history import Repository
from bench.patch.model import Case
from tests.conftest import GitRepo

METHOD = '''
    def step_{n}_{m}(self, value, limit={m}00):
        """Return "value {m}" of store {n}, at most <limit> of it."""
        found = self.items_{n}[{m}] + "first item {m} of {n}"

        for item in self.parts_{n}_{m}:
            if len(found) == limit && item != {m}:
                self.stop_{n}_{m}(item, again=True)
            found += item * {m}{n}

        # all that was added since step {m} was done in {n} goes away
        self.clear_{n}_{m}(found)
        return found + {m}{n}
'''


def _module(n: int) -> str:
    """A class of eight methods, no two lines of which are the same but for blank ones."""
    head = f'"""Store {n}."""\n\nimport os\nimport re{n}\n\n\nclass Store{n}:\n    kept_{n} = 1  \n    named_{n} = "a name"\n'
    return head + "".join(METHOD.format(n=n, m=m) for m in range(8))


def _changed(text: str, n: int) -> str:
    """Four ways to change a module: far apart, by insertion, at one place and deeper, and all over."""

    clear, stop = f"        self.clear_{n}_3(found)\n", f"                self.stop_{n}_0(item, again=True)\n"
    deeper = "            if item:\n                for part in item:\n                    found += part"
    ways = (
        {f'"first item {m} of {n}"': f'"other item {m} of {n}"' for m in (1, 4, 6)},
        {clear: f"{clear}        self.note_{n}(3)\n        self.log_{n}(3)\n"},
        {f"            found += item * 5{n}\n": f"{deeper}{n}\n\n        self.x{n}()\n"},
        {
            "import os\n": "import sys\n",
            f"        return found + 7{n}\n": f"        return found - 7{n}\n",
            f"{stop}            found += item * 0{n}\n": f"                self.end_{n}(item)\n            found = item{n}\n",
        },
    )
    for way in ways if n % 4 == 3 else ways[n % 4 : n % 4 + 1]:
        for old, new in way.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Twelve modules; each commit changes three of them at several places."""
    top = tmp_path_factory.mktemp("corpus")

    def git(*args: str) -> str:
        named = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false")
        return GitRepo(top).git(*named, *args)

    git("init", "-q")
    paths = [Path(top, "src", f"store_{number}.py") for number in range(12)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        path.write_text(_module(number))
    git("add", "-A")
    git("commit", "-qm", "all")
    for way in range(4):
        for number in range(way, 12, 4):
            paths[number].write_text(_changed(paths[number].read_text(), number))
        git("commit", "-qam", f"change {way}")
    made = Repository(Origin("some/stores", git("rev-parse", "HEAD").strip()), top)
    yield made
    made.close()


@pytest.fixture(scope="module")
def case(repository: Repository) -> Case:
    """A plain diff of one file."""
    found = (make("exact", number, 1, [repository]) for number in range(20))
    return next(made for made in found if made is not None and len(made.files) == 1)


@pytest.mark.parametrize("kind", ["exact", "html-escaped", "search-replace", "3 slips", "either or"])
def test_a_case_is_always_the_same(repository: Repository, kind: str) -> None:
    one, again = (make(kind, 3, 7, [repository]) for _ in range(2))
    assert one is not None
    assert one == again
    other = make(kind, 3, 8, [repository])
    assert other is None or other.answer != one.answer


def test_the_bytes_that_are_expected_are_those_of_the_commit(repository: Repository, case: Case) -> None:
    assert case.expected
    for path, content in case.expected.items():
        name = f"{case.commit}:{path}"
        assert content == (repository.blob(name), "100644")
        assert case.files[path] == (repository.blob(f"{case.commit}^:{path}"), "100644")


def test_the_judge_takes_only_the_right_bytes_and_modes_or_a_refusal(case: Case) -> None:
    assert case.expected
    right = {path: content for path, content in case.expected.items() if content}
    path, (data, _) = next(iter(right.items()))
    for files, found in (
        (right, RIGHT), (None, REFUSED), (dict(case.files), WRONG), ({**right, "other": (b"", "100644")}, WRONG),
        ({**right, path: (data + b"\n", "100644")}, WRONG), ({**right, path: (data, "100755")}, WRONG),
        ({**right, path: (data.replace(b"\n", b"\r\n"), "100644")}, WRONG),
    ):  # fmt: skip
        assert verdict(case, Result(files)) == found
    must = replace(case, expected=None)
    assert verdict(must, Result(None)) == RIGHT
    assert verdict(must, Result(dict.fromkeys(case.files, (b"x", "100644")))) == APPLIED


def test_a_plain_diff_is_right_for_every_applier(case: Case) -> None:
    for result in (ours(case), *(baseline(case, command) for command in available().values())):
        assert verdict(case, result) == RIGHT


def test_a_canonical_diff_that_is_wrong_is_seen(case: Case) -> None:
    diff = ours(case).diff
    assert wrong_with(case, diff, git=True) == ""
    path = next(iter(case.files))
    stale = replace(case, files={path: (b"another file\n", "100644")})
    assert "git apply --check" in wrong_with(stale, diff, git=True)
    assert "unidiff" in wrong_with(case, diff.replace("\n@@ -", "\n@@ -1,1 +1,1 @@\n@@ -", 1), git=False)


def test_every_case_is_applied_or_refused_as_it_must_be(repository: Repository) -> None:
    """All that must be refused, and most slips, can be made from so small a repository."""
    rare = []
    for kind in (*SLIPS, *COMBINATIONS, *REFUSALS):
        case = make(kind, 0, 1, [repository])
        if case is None:
            rare.append(kind)
            continue
        result = ours(case)
        right = (RIGHT, REFUSED) if case.may_refuse else (RIGHT,)
        assert verdict(case, result) in right, f"{case.name}: {result.text}\n{case.answer}"
    assert len(REFUSALS) >= 50 and REFUSALS.keys().isdisjoint(rare)
    assert len(rare) < len(SLIPS) / 8, rare


def test_each_kind_gets_as_many_cases_as_the_others_of_its_group() -> None:
    found = plan(2000)
    groups = kinds()
    assert len(found) == len(set(found)) == 2000
    for names in groups.values():
        counts = [sum(kind == name for kind, _ in found) for name in names]
        assert max(counts) - min(counts) <= 1
    quoted = {kind for names in groups.values() for kind in names if "quoted" in kind}
    assert {kind for kind, _ in plan(30, ["quoted"])} == quoted


def test_the_diff_is_cut_out_of_its_fences() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert diff_of(f"Look:\n\n```python\nprint()\n```\n\n```diff\n{diff}```\nDone.\n") == diff
    assert diff_of(diff) == diff


def test_the_table_and_the_exit_code(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"--repo {repository.path} --jobs 1 --cases 6 --only exact --json {tmp_path / 'found'}"
    assert main(arguments.split()) == 0
    said = capsys.readouterr().out
    assert all(text in said for text in ("repoagent", "git apply, lenient", "100.00 %"))
    assert len((tmp_path / "found").read_text().splitlines()) == 6
