"""What each rule finds, and when it keeps quiet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.checks.api_changed import changed_symbols, fits_old_callers
from repoagent.review.checks.comments import only_comments
from repoagent.review.checks.file_origin import has_mark, is_vendored_path
from repoagent.review.checks.run import CHECKS, load_check
from repoagent.review.checks.statistics import is_fix, quantile, wilson_lower
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.rules import RULES
from tests.review.checks.conftest import Files, Made, answer, found, mixed, noise, stage


def pairs(count: int, *paths: str, text: str = "") -> list[tuple[str, Files]]:
    return [(f"Change it {n}", dict.fromkeys(paths, f"{text}{n}\n")) for n in range(count)]


def test_each_rule_without_a_model_has_a_check() -> None:
    without = {rule.id for rule in RULES.values() if rule.source != "model"} - {
        "review-relaxed"
    }  # untrusted.py
    assert set(CHECKS) == without
    assert all(callable(load_check(rule)) for rule in CHECKS)


def test_a_partner_that_is_left_out_is_named_with_its_commits(made: Made) -> None:
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "new\n"})
    (finding,) = found(repo, "partner-missing")
    assert (finding.location.path, finding.key, finding.level.word) == ("api.py", "api.md", "warning")
    assert [one.subject for one in finding.evidence] == [f"Change it {n}" for n in range(11, 6, -1)]
    assert "It changed in 12 of the last 12 commits" in finding.body
    stage(repo, {"api.md": "new\n"})
    assert found(repo, "partner-missing") == []


@pytest.mark.soak
def test_a_partner_that_came_earlier_on_the_branch_is_not_missing(made: Made) -> None:
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    repo.git("switch", "-qc", "topic")
    repo.commit("The page first", **{"api.md": "new\n"})
    stage(repo, {"api.py": "new\n"})
    assert found(repo, "partner-missing") == []
    repo.git("switch", "-qc", "other", "main")
    assert [finding.key for finding in found(repo, "partner-missing")] == ["api.md"]
    repo.git("commit", "-qm", "half")
    assert [
        one.key
        for one in found(repo, "partner-missing", ChangeSelector("range", "main..other", cwd=repo.top))
    ] == ["api.md"]
    repo.commit("the other half", **{"api.md": "new\n"})
    assert found(repo, "partner-missing", ChangeSelector("range", "main..other", cwd=repo.top)) == []
    assert found(repo, "partner-missing", ChangeSelector("commit", "other", cwd=repo.top)) == []


@pytest.mark.soak
def test_a_deleted_partner_is_not_missing_and_a_renamed_file_keeps_its_past(made: Made) -> None:
    body = "".join(f"{n}\n" for n in range(30))
    repo = made([*mixed(noise(50), pairs(12, "api.py", "api.md", text=body)), ("Drop it", {"api.md": None})])
    stage(repo, {"api.py": body})
    assert found(repo, "partner-missing") == []
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("mv", "api.py", "interface.py")
    assert [(one.key, one.location.path) for one in found(repo, "partner-missing")] == [
        ("api.md", "interface.py")
    ]


def test_a_file_whose_changes_need_fixes_is_prone(made: Made) -> None:
    often: list[tuple[str, Files]] = [
        ("Fix a crash" if n % 2 else "Extend it", {"hot.c": f"{n}\n"}) for n in range(30)
    ]
    repo = made(mixed(noise(80), often))
    stage(repo, {"hot.c": "new\n", "noise/1.c": "new\n"})
    (finding,) = found(repo, "fix-prone")
    assert finding.key == "hot.c"
    assert "5 of its last 5 changes (100%)" in finding.body
    assert {one.subject for one in finding.evidence} == {"Fix a crash"}


@pytest.mark.parametrize(
    ("subject", "fix"),
    [
        (b"Fix the parser", True), (b"fixes #12", True), (b"Revert \"x\"", True), (b"hotfix", True),
        (b"Resolve a regression in y", True), (b"Add a prefix", False), (b"Add debug output", False),
        (b"Use fixtures", False), (b"Add suffixes", False),
    ],
)  # fmt: skip
def test_a_subject_says_whether_it_repairs(subject: bytes, fix: bool) -> None:
    assert is_fix(subject) is fix


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_lower_end_of_an_interval_is_below_the_share(hits: tuple[int, int]) -> None:
    assert -1e-9 <= wilson_lower(*hits) <= hits[0] / hits[1] + 1e-9


def test_a_change_of_unusual_shape(made: Made) -> None:
    repo = made(noise(120))
    stage(repo, {f"new/{n}.txt": "x\n" for n in range(9)})
    (wide,) = found(repo, "unusual-width")
    assert wide.title == "the change touches 9 files: 99 of 100 commits here touch 1 or fewer"
    assert found(repo, "unusual-size") == []
    repo.git("reset", "-q", "--hard")
    stage(repo, {"long.txt": "x\n" * 400, "Cargo.lock": "x\n" * 400, "vendor/a/x.c": "x\n" * 400})
    (long,) = found(repo, "unusual-size")
    assert (long.location.path, "400 changed lines" in long.title) == ("long.txt", True)


@pytest.mark.soak
def test_too_few_commits_to_call_a_shape_unusual(made: Made) -> None:
    repo = made(noise(50))
    stage(repo, {f"new/{n}.txt": "x\n" * 300 for n in range(40)})
    assert {one.rule for one in answer(repo).findings} == set()
    assert quantile([1] * 99) == 0


MARK = "// Code generated by protoc-gen-go. DO NOT EDIT.\n"


@pytest.mark.soak
def test_a_generated_file_without_its_source(made: Made) -> None:
    both: list[tuple[str, Files]] = [
        (f"Extend it {n}", {"api.proto": f"{n}\n", "out/api.go": f"{MARK}{n}\n"}) for n in range(6)
    ]
    repo = made([*noise(5), *pairs(6, "api.proto"), *both])
    stage(repo, {"out/api.go": f"{MARK}by hand\n"})
    (finding,) = found(repo, "generated-edited")
    assert (finding.location.path, finding.location.start, finding.location.end) == ("out/api.go", 2, 2)
    assert "Code generated by protoc-gen-go" in finding.body
    stage(repo, {"api.proto": "new\n"})
    assert found(repo, "generated-edited") == []


def test_a_generated_file_whose_source_is_another_file_of_one_folder_each_time(made: Made) -> None:
    each: list[tuple[str, Files]] = [
        (f"Command {n}", {f"commands/c{n}.json": f"{n}\n", "src/table.c": f"{MARK}{n}\n"}) for n in range(8)
    ]
    repo = made([*noise(5), *each])
    stage(repo, {"src/table.c": f"{MARK}by hand\n"})
    assert [one.key for one in found(repo, "generated-edited")] == ["src/table.c"]
    stage(repo, {"commands/new.json": "new\n"})
    assert found(repo, "generated-edited") == []


@pytest.mark.soak
def test_a_generated_file_that_people_edit_is_theirs(made: Made) -> None:
    repo = made([*noise(5), *pairs(8, "out/api.go", text=MARK)])
    stage(repo, {"out/api.go": f"{MARK}by hand\n"})
    assert found(repo, "generated-edited") == []


@pytest.mark.soak
def test_attributes_have_the_last_word(made: Made) -> None:
    repo = made([*pairs(2, "schema.json", "in.txt"), *noise(3)])
    stage(repo, {".gitattributes": "schema.json linguist-generated\n"})
    repo.git("commit", "-qm", "attributes")
    stage(repo, {"schema.json": "by hand\n"})
    assert [one.key for one in found(repo, "generated-edited")] == ["schema.json"]
    stage(repo, {"schema.json": f"{MARK}x\n", ".gitattributes": "*.json -linguist-generated\n"})
    assert found(repo, "generated-edited") == []


@pytest.mark.soak
def test_a_lock_file_without_its_manifest(made: Made) -> None:
    repo = made([*pairs(6, "Cargo.toml", "Cargo.lock"), *noise(3)])
    stage(repo, {"Cargo.lock": "new\n"})
    assert found(repo, "generated-edited") == []  # newer versions, and nothing else
    stage(repo, {"noise/1.c": "new\n"})
    assert ["its manifest" in one.title for one in found(repo, "generated-edited")] == [True]
    stage(repo, {"Cargo.toml": "new\n"})
    assert found(repo, "generated-edited") == []


@pytest.mark.parametrize(
    ("head", "marked"),
    [
        (b"# This file is autogenerated by pip-compile\n", True),
        (b"/* Automatically generated by x, do not edit. */\n", True),
        (b"// @generated SignedSource<<0>>\n", True),
        (b"\n" * 20 + b"DO NOT EDIT\n", False),
        (b'"""Ops can be automatically generated by matching."""\n', False),
        (b"We check that users do not edit it.\n", False),
        (None, False),
    ],
)
def test_a_mark_is_one_of_a_generator(head: bytes | None, marked: bool) -> None:
    assert (has_mark(head) is not None) is marked


def test_an_edit_of_a_vendored_file_and_its_update(made: Made) -> None:
    files = {f"third_party/zlib/{name}.c": "1\n" for name in "abcde"}
    repo = made([("Import zlib", files), *noise(3), ("Update zlib", dict.fromkeys(files, "2\n"))])
    stage(repo, {"third_party/zlib/a.c": "by hand\n"})
    assert [one.key for one in found(repo, "vendored-edited")] == ["third_party/zlib"]
    stage(repo, dict.fromkeys(files, "3\n"))
    assert found(repo, "vendored-edited") == []


@pytest.mark.soak
def test_a_vendored_file_that_people_edit_is_theirs(made: Made) -> None:
    repo = made([("Import", {"vendor/own/a.c": "1\n"}), *pairs(4, "vendor/own/a.c"), *noise(3)])
    stage(repo, {"vendor/own/a.c": "by hand\n"})
    assert found(repo, "vendored-edited") == []
    assert not is_vendored_path("src/vendors.py")


OLD = "def convert(value, unit):\n    return value\n\n\ndef _inner():\n    pass\n"


def api(count: int, text: str = OLD) -> list[tuple[str, Files]]:
    return [
        (
            f"Work on it {n}",
            {"lib.py": f"{text}# {n}\n", "user.py": f"from lib import convert\nconvert({n})\n"},
        )
        for n in range(count)
    ]


def test_a_changed_interface_whose_callers_are_untouched(made: Made) -> None:
    repo = made([*noise(5), *api(4)])
    stage(repo, {"lib.py": OLD.replace("value, unit", "unit, value")})
    (finding,) = found(repo, "api-changed")
    assert finding.title == "convert has a new signature, but user.py, which names it, is unchanged"
    assert (finding.location.path, finding.location.start) == ("lib.py", 1)
    stage(repo, {"lib.py": OLD.replace("convert", "changed")})
    assert found(repo, "api-changed")[0].title.startswith("convert was removed")
    stage(repo, {"user.py": "from lib import changed\n"})
    assert found(repo, "api-changed") == []


@pytest.mark.soak
def test_an_interface_that_moved_or_only_grew_breaks_nobody(made: Made) -> None:
    repo = made([*noise(5), *api(4)])
    stage(repo, {"lib.py": OLD.replace("value, unit", "value: int, unit: str = '', *, exact=False")})
    assert found(repo, "api-changed") == []
    stage(repo, {"lib.py": "from other import convert\n", "other.py": OLD})
    assert found(repo, "api-changed") == []
    stage(repo, {"lib.py": OLD.replace("_inner()", "_inner(x)")})
    assert found(repo, "api-changed") == []


@pytest.mark.parametrize(
    ("before", "after", "language", "fits"),
    [
        ("def f(a, b)", "def f(a, b, c=1)", "python", True),
        ("def f(a, b)", "def f(a, b, c)", "python", False),
        ("def f(a, b=1)", "def f(a, b)", "python", False),
        ("def f(a: int) -> int", "def f(a: str) -> str", "python", True),
        ("int f(int a, char *b)", "int f(int x, char *y)", "c", True),
        ("int f(int a)", "int f(long a)", "c", False),
        ("int f(char *a)", "int f(const char *a)", "c", True),
        ("int f(const char *a)", "int f(char *a)", "c", False),
        ("fn f(a: Vec<(u8, u8)>)", "fn f(b: Vec<(u8, u8)>)", "rust", True),
        ("function f(a: string)", "function f(a: string, b?: number)", "typescript", True),
        ("func F(a int)", "func F(a int, b int)", "go", False),
    ],
)
def test_which_signatures_old_callers_fit(before: str, after: str, language: str, fits: bool) -> None:
    assert fits_old_callers(before, after, language) is fits


@given(
    st.text(alphabet="def f(a,b=1)[]<>{}:*-\n…", max_size=40),
    st.text(alphabet="def f(a,b=1)[]<>:*", max_size=40),
)
def test_no_signature_breaks_the_comparison(before: str, after: str) -> None:
    assert fits_old_callers(before, before, "python")
    fits_old_callers(before, after, "typescript")


def test_what_does_not_parse_any_more_says_nothing() -> None:
    assert list(changed_symbols("a.py", OLD.encode(), b"def convert(((\n")) == []
    assert [gone.name for gone in changed_symbols("a.py", OLD.encode(), b"x = 1\n")] == ["convert"]
    assert list(changed_symbols("a.py", None, b"x = 1\n")) == []


@pytest.mark.soak
def test_a_rule_that_is_off_is_not_asked(made: Made) -> None:
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "new\n"})
    assert answer(repo, None, **{"partner-missing": "off"}).findings == ()
    assert answer(repo, None, **{"partner-missing": "error"}).findings[0].level.word == "error"


def test_a_few_commits_that_all_agree_are_enough(made: Made) -> None:
    repo = made(pairs(12, "api.py", "api.md"))
    stage(repo, {"api.py": "new\n"})
    (finding,) = found(repo, "partner-missing")
    assert "the threshold 80%" in finding.body and "most relevant" not in finding.body


def test_one_commit_that_is_most_of_the_weight_is_not_enough(made: Made) -> None:
    wide = [
        (f"Wide {n}", dict.fromkeys(("api.py", *(f"w/{n * 9 + k}" for k in range(9))), f"{n}\n"))
        for n in range(9)
    ]
    twice = pairs(2, "api.py", "api.md")
    repo = made([*noise(80), *wide, *twice])
    stage(repo, {"api.py": "new\n"})
    assert [one.key for one in found(repo, "partner-missing")] == []
    repo.git("reset", "-q", "--hard")
    for number in range(2):
        repo.commit(f"Again {number}", **{"api.py": f"again {number}\n", "api.md": f"again {number}\n"})
    stage(repo, {"api.py": "new\n"})
    assert [one.key for one in found(repo, "partner-missing")] == ["api.md"]


@pytest.mark.parametrize(
    ("path", "old", "new", "quiet"),
    [
        ("a.c", "int x; /* teh */\n/* one\n * two\n */\n", "int x; /* teh */\n/* one\n * too\n */\n", True),
        ("a.c", "// one\n*p = 1;\n", "// one\n*p = 2;\n", False),
        ("a.c", "#define A 1\n", "#define A 2\n", False),
        ("a.c", "/* a */ f(1);\n", "/* a */ f(2);\n", False),
        ("a.go", "//go:build linux\n", "//go:build windows\n", False),
        ("a.sh", "#!/bin/sh\nls\n", "#!/bin/bash\nls\n", False),
        (
            "a.py",
            'def f():\n    """One."""\n    return 1\n',
            'def f():\n    """Two.\n\n    More."""\n    return 1\n',
            True,
        ),
        ("a.py", 'def f():\n    return "One."\n', 'def f():\n    return "Two."\n', False),
        ("a.py", "x = [1,2]\n", "x = [1, 2]  # both\n", True),
        ("a.py", "x = (\n", "x = ((\n", False),
        ("a.md", "It is teh best that there is.\n", "It is the best that there is.\n", True),
        ("a.md", "It is best.\n", "It is best.\n\nA new paragraph.\n", False),
        ("a.unknown", "# a\n", "# b\n", False),
    ],
)
def test_only_words_changed(path: str, old: str, new: str, quiet: bool) -> None:
    lines = Lines(1, tuple(old.encode().splitlines(True)), 1, tuple(new.encode().splitlines(True)))
    file = ChangedFile(path, "modified", path, "1", "2", "100644", "100644")
    change = Change(
        "diff", "", (file,), "", "", "", frozenset(), b"",
        lambda _: old.encode(), lambda _: new.encode(), lambda _: _differing(lines),
    )  # fmt: skip
    assert only_comments(change, file) is quiet


def _differing(lines: Lines) -> tuple[Lines, ...]:
    """Without what is the same at the beginning and the end, as a diff has it."""
    old, new = list(lines.removed), list(lines.added)
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return (Lines(1, tuple(old), 1, tuple(new)),)


def test_a_change_of_comments_alone_has_no_missing_partner(made: Made) -> None:
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "# why\n11\n"})
    assert found(repo, "partner-missing") == []


def test_callers_are_told_with_their_line_and_not_for_a_comment_or_their_own_method(made: Made) -> None:
    old, new = (
        "/* Look a key up. */\nint lookup_key(int a) {\n  return a;\n}\n",
        "int lookup_key(int a, int b) {",
    )
    commits = [
        (f"Work {n}", {"lib.c": f"{old}/* {n} */\n", "one.c": f"/* {n}: lookup_key is not used\n lookup_key() */\n",
                       "two.c": f"int x{n};\nint y(void) {{ return lookup_key({n}); }}\n"})
        for n in range(4)
    ]  # fmt: skip
    repo = made([*noise(5), *commits])
    stage(repo, {"lib.c": old.replace("int lookup_key(int a) {", new)})
    (finding,) = found(repo, "api-changed")
    assert finding.key == "lookup_key two.c" and "Named in two.c:2: this file" in finding.body
    assert finding.location.start == 2 and "Now: `int lookup_key(int a, int b)`" in finding.body


@pytest.mark.soak
def test_a_method_of_the_same_name_is_no_call_in_rust(made: Made) -> None:
    old = "pub struct Outer;\nimpl Outer {\n    pub fn with_context(&self) {}\n}\n"
    inner = "struct Inner;\nimpl Inner {\n    fn with_context(&self, o: Outer) {}\n    fn x(&self) { self.with_context(Outer) }\n}\n"
    commits: list[tuple[str, Files]] = [
        (f"W {n}", {"a.rs": f"{old}// {n}\n", "b.rs": f"{inner}// {n}\n"}) for n in range(4)
    ]
    repo = made([*noise(5), *commits])
    stage(repo, {"a.rs": "pub struct Outer;\n"})
    assert [one.key for one in found(repo, "api-changed")] == []


def test_each_commit_of_a_short_branch_is_asked_about(made: Made) -> None:
    """Files that never change together hide the habit of one of them; what the branch has touched is not missing."""
    repo = made(mixed(noise(60), pairs(14, "api.py", "api.md")))
    repo.git("switch", "-qc", "topic")
    repo.commit("Half of it", **{"api.py": "new\n"})
    repo.commit("All else", **{f"noise/{n}.c": "new\n" for n in range(9)})
    branch = ChangeSelector("range", "main..topic", cwd=repo.top)
    assert [one.key for one in found(repo, "partner-missing", branch)] == ["api.md"]
    repo.commit("The page", **{"api.md": "new\n"})
    assert found(repo, "partner-missing", branch) == []
