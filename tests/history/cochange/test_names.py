from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.cochange.score import alike, stem, words

PATHS = st.lists(
    st.sampled_from(
        [b"a", b"src", b"test_", b".spec", b"Test", b"/", b".", b"_", b"index", b"\xff", b"\n", b"t12-"]
    ),
    max_size=8,
).map(b"".join)


@pytest.mark.parametrize(
    "paths",
    [
        (b"src/core/parser.c", b"core/parser.h", b"tests/test_parser.py", b"parser_test.go", b"spec/parser_spec.rb"),
        (b"src/StringUtils.java", b"test/StringUtilsTest.java", b"test/TestStringUtils.java", b"string_utils.py", b"string-utils.js"),
        (b"src/foo.ts", b"src/foo.spec.ts", b"src/foo.test.tsx", b"types/foo.d.ts", b"t/t1234-foo.sh"),
        (b"pkg/foo/__init__.py", b"foo/index.ts", b"foo/mod.rs", b"tests/test_foo.py", b"foo/index.test.ts"),
    ],
)  # fmt: skip
def test_kin_have_one_stem(paths: tuple[bytes, ...]) -> None:
    assert len({stem(path) for path in paths}) == 1, [stem(path) for path in paths]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"", b""),
        (b".gitignore", b"gitignore"),
        (b"a/Makefile", b"makefile"),
        (b"index.ts", b"index"),  # at the top there is no folder to stand for
        (b"tests/test.js", b"test"),  # never cut to nothing
        (b"latest.py", b"latest"),
        (b"contest.c", b"contest"),
        (b"Latest.java", b"latest"),
        (b"...", b".."),
        (b"a/\xff\xfe.c", b"\xff\xfe"),
    ],
)
def test_stem_of_unusual_names(path: bytes, expected: bytes) -> None:
    assert stem(path) == expected


@given(PATHS)
def test_stem_is_empty_only_for_an_empty_name_and_does_not_depend_on_case_of_itself(path: bytes) -> None:
    found = stem(path)
    assert bool(found) == bool(path) or path.endswith(b"/")
    assert found == found.lower()


def test_words_take_names_apart() -> None:
    assert words(b"src/HTTPServer/parse_url.test.py") == {
        b"src",
        b"http",
        b"server",
        b"parse",
        b"url",
        b"test",
    }
    assert words(b"v1.2/notes") == {b"v", b"notes"}  # a dot in a folder is no extension
    assert words(b"\xff.c") == frozenset()


def test_a_rare_word_says_more() -> None:
    candidates = {1: b"Documentation/git-fsck.txt", 2: b"builtin/log.c", 3: b"builtin/add.c", 4: b"README"}
    found = alike(b"builtin/fsck.c", candidates)
    assert found == {1: 1.0, 2: 0.5, 3: 0.5}
    assert alike(b"", candidates) == {}
