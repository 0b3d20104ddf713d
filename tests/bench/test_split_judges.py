"""The judge of bench/split on small sources with cuts that a person calls good or bad.

In the sources below `@ok` at the start of a line says that a cut there is good, `@inside`, `@orphan`, `@head` or `@close`
that it is bad in this way (others may be said too).
"""

from __future__ import annotations

import re

import pytest

from bench.split.judges import Unjudged, marks_of
from bench.split.marks import Marks, judged, settled

_SIGN = re.compile(rb"^@(ok|inside|orphan|head|close) ?", re.MULTILINE)

# kind -> (target, source)
SOURCES: dict[str, tuple[int, str]] = {
    "python": (
        95,
        """\
import os
@ok
@ok # What it is about.
@orphan @decorated
@orphan def first(one):
@inside     return one
@ok

class Long:
@head     '''A class that is longer than the target.'''

@ok     # A comment,
@orphan     # of two lines.
@orphan     def method(self):
@head         first(1)
@inside         return 1
@ok
    def other(self):
@head         # Why.
@orphan         first(
@inside             2,
        )
@ok         # Because.
@orphan         first(3)
@ok         if self.one:
@head             first(4)
@ok             first(5)
        else:
@inside             first(6)
@ok         TABLE = [
@head             'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
@ok             'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'cccccccccccccccc',
@ok             # Last.
@orphan             'dddddddddddddddddddddddddddddd',
@close         ]
@ok         try:
@head             first(7)
@inside         except ValueError:
@head             first(8)
@ok         match self.two:
@head             case 1:
@head                 first(999999999999999999)
@ok             case 2:
@head                 first(999999999999999999)
""",
    ),
    "javascript": (
        80,
        """\
@ok import one from 'one';
@ok
@ok /** What it does. */
@orphan function first(a) {
@inside   return a;
@close }
@ok
@ok describe('much', () => {
@head   it('is short', () => {
@inside     first(1);
@inside   });
@ok
  // About the second.
@orphan   it('is short too', () => {
    first(2);
@inside   });
@close });
@ok const table = {
@head   one: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
@ok   two: 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
@close };
@ok if (table) {
@head   first(111111111111111111111111111111111);
@ok   first(22222222222222222222222222222222);
@close } else {
@head   first(333333333333333333333333333333333);
@ok   first(44444444444444444444444444444444);
@close }
""",
    ),
    "c": (
        80,
        """\
@ok #include <one.h>
@ok
/* What it does. */
@orphan static int first(void)
@inside {
@inside 	return 1;
}
@ok
int second(void)
@head {
@head 	int one = first();
@ok 	/* why */
@orphan 	if (one)
@inside 		one++;
@ok 	one = first() + first() + first();
@close }
@ok
#ifdef THREE
@head int third_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;
@ok int third_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb;
@close #endif
""",
    ),
    "bash": (
        70,
        """\
#!/bin/sh
@ok
@ok # What it does.
@orphan first() {
@inside 	echo one
@inside }
@ok
second() {
@head 	echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
@ok 	# Why.
@orphan 	if one; then
@inside 		two
	fi
@ok 	for one in two; do
@head 		echo bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
@ok 		echo cccccccccccccccccccccccccccccccc
@close 	done
@close }
""",
    ),
    "json": (
        60,
        """\
{
@head   "one": {
@inside     "two": 2
@inside   },
@ok   "three": [
@head     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
@ok     "bbb}bbbbbb]bbb,bbbbbbbbb\\"bbb",
@ok     // Why.
@orphan     {
@inside       "four": 4
    },
@ok     5
@close   ],
@ok   "six": 6
@close }
""",
    ),
    "yaml": (
        60,
        """\
@ok # All of it.
@orphan one:
@inside   two: 2
@ok # Why.
@orphan three:
@head   - aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
@ok   - four: 4
@inside     five: 5
@ok   # Six.
@orphan   - six: |
@inside       # no comment
@inside       text
@ok seven:
@inside   {eight: 8,
@inside    nine: 9}
@ok
ten: 10
""",
    ),
    "html": (
        80,
        """\
<!DOCTYPE html>
@ok <body>
@head <h1>Title</h1>
@head <p>A paragraph that has no end tag,
@inside but two lines.
@ok <p>Another <b>one</b>
@inside with <br> something in it.
@ok <dl><dt>Name</dt>
@head <dd>What it is.</dd>
@close </dl>
@ok <ul>
@head <li>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
@ok <li>bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
@inside still
@close </ul>
@ok <script>
@head function first() {
@inside   return '</b>';
}
@ok function second_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa() {}
@close </script>
@ok <style>
@head b { color: red }
@ok i {
@inside   color: red }
@ok u { color: #aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa }
@close </style>
@close </body>
""",
    ),
    "css": (
        75,
        """\
@ok /* About the first. */
@orphan .first {
@inside   color: red; /* yes */
@close }
@ok
.second { color: blue }
@ok @media (max-width: 1px) {
@head   .third { background: url(data:a;b{c) }
@ok   .fourth::after { content: "}"; }
@close }
""",
    ),
    "markdown": (
        60,
        """\
# Title

@head A paragraph
@inside of two lines.

@ok ## Section

@head - one
@inside   still one
@inside - two

@ok ```python
@head # no title
@ok code = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
@close ```

@ok | a | b |
@head |---|---|
@head | aaaaaaaaaaaaaaaaaaaaaaaaa | b |
@ok | ccccccccccccccccccccccccc | d |

@ok ### Short

@inside Text.

@ok <a name="two"></a>

@orphan <a id='three'></a>

@orphan Underlined,
@inside in two lines
----

@head Text.
""",
    ),
    "rst": (
        60,
        """\
Title
@inside =====

@head A paragraph
@inside of two lines::

@inside     code
@ok
@ok .. note:: Look
@inside    here.

@inside    And here.

@ok .. _second:

@orphan .. index:: two
@orphan    single: three

@orphan Second
------

@head Text.

@ok .. currentmodule:: one

@orphan Third
-----

@head Text that is so long.
@ok
@ok .. module:: two

Text.
""",
    ),
}


def _read(source: str) -> tuple[bytes, list[tuple[int, str]]]:
    """The text without its signs, and what was said at which offset."""
    text, said, at = b"", [], 0
    raw = source.encode()
    for found in _SIGN.finditer(raw):
        text += raw[at : found.start()]
        said.append((len(text), found[1].decode()))
        at = found.end()
    return text + raw[at:], said


@pytest.mark.parametrize("kind", SOURCES)
def test_the_judge_says_what_a_person_says(kind: str) -> None:
    target, source = SOURCES[kind]
    text, said = _read(source)
    verdicts = judged(marks_of(kind, text), [offset for offset, _ in said], target)
    wrong = []
    for (offset, word), verdict in zip(said, verdicts, strict=True):
        if word not in (verdict.kinds or ("ok",)):
            line = text[offset:].split(b"\n")[0].decode()
            wrong.append(f"{line}: {word}, but the judge says {verdict.kinds} {verdict.label}")
    assert not wrong, "\n" + "\n".join(wrong)
    assert len({word for _, word in said}) > 1


def test_a_cut_inside_a_python_definition_that_fits_is_told_from_one_in_a_statement() -> None:
    text = b"def one():\n    two()\n\nthree = [\n    4,\n]\n"
    verdicts = judged(marks_of("python", text), [text.index(b"    two"), text.index(b"    4")], 1000)
    assert [one.definition for one in verdicts] == [True, False]


COMMENTED = b"# why\ndef one():\n    two()\n    three()\n"
CLASS = b"class One:\n    def two(self):\n        three()\n        four()\n"
APART = b"one = 1\n# apart\n\nif two:\n    three()\n    # inner\nfour = 4\n"
ERROR = b"class A {\n#if X\n  int b() {\n#else\n  int c() {\n#endif\n  }\n};\n\nint d() { return 1; }\n\nint e() {\n  f();\n}\n"
LOST = b"""first() {
  if [[ $1 =~ (25[0-5]|2[0-4][0-9]|1[0-9][0-9]) ]]; then
    echo "${1//'&'/$'&'amp;}"
}

# What it does.
second() {
  echo $((16#ff)) | grep -q '<<'
  echo 2
}
"""
ONE_LINE = b'{"one":[1,22,333],"two":{"three":3}}\n'
CASES = {
    # the kind, the text, the target, and for each place of a cut the word that the verdict has
    "a definition with its comments that fits": ("python", COMMENTED, len(COMMENTED), {b"    three": "inside"}),
    "one that does not fit may be opened": ("python", COMMENTED, len(COMMENTED) - 1, {b"    three": "ok"}),
    "a head whose first member would not fit with it": ("python", CLASS, len(CLASS) - 1, {b"    def": "ok"}),
    "a head in a class that must be opened": ("python", CLASS, 20, {b"    def": "head"}),
    "comments above a blank line, or at the end of a block": ("python", APART, 10, {b"if two": "ok", b"four": "ok"}),
    "what is in an error begins at itself": ("cpp", ERROR, 60, {b"int e": "ok"}),
    "shell functions where the parser loses its way": (
        "bash", LOST, 100,
        {b"}\n\n": "close", b"# What": "ok", b"second": "orphan", b"  echo $": "inside", b"  echo 2": "inside"},
    ),
    "one line is cut between items": ("json", ONE_LINE, 12, {b"22": "ok", b"33]": "inside", b'"two"': "ok", b"}\n": "close"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_on_a_single_cut(case: str) -> None:
    kind, text, target, said = CASES[case]
    verdicts = judged(marks_of(kind, text), [text.index(place) for place in said], target)
    assert all(word in (one.kinds or ("ok",)) for one, word in zip(verdicts, said.values(), strict=True)), (
        verdicts
    )


def test_a_comment_that_has_to_be_opened_is_cut_between_its_paragraphs() -> None:
    words = " * aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
    text = (
        f"/**\n{words * 2} *\n{words} * <p>{words} * <pre>\n{words} *\n{words} * </pre>\n */\nvoid one();\n"
    ).encode()
    starts = [found.end() for found in re.finditer(rb"\n(?=.)", text)]
    verdicts = judged(marks_of("java", text), starts, 150)
    assert [number for number, one in enumerate(verdicts, 1) if not one.kinds] == [3, 4, 5]
    run = "// aaaaaaaaaaaaaaaaaaaaaaaaa\n" * 3 + "//\n" + "// bbbbbbbbbbbbbbbbbbbbbbbb\n" * 3
    source = f"{run}func one() {{\n}}\n".encode()
    cuts = [source.index(b"//\n") + 3, source.index(b"func"), 29]
    assert [bool(one.kinds) for one in judged(marks_of("go", source), cuts, 100)] == [False, True, True]
    assert all(one.kinds for one in judged(marks_of("go", source), cuts, 300))


def test_blanks_around_a_line_end_make_no_difference() -> None:
    text = b"one\n  two  \n\nthree\n"
    assert [settled(text, cut) for cut in (4, 5, 6, 7, 9, 10, 12)] == [4, 4, 4, 7, 12, 12, 12]
    assert [one.kinds for one in judged(Marks(b"a\nb\n", re.compile(b"")), [2], 100)] == [()]


def test_what_the_judge_can_not_read_is_said() -> None:
    for kind, text in (("python", b"def (\n"), ("yaml", b"a: [\n"), ("yaml", b"\xff\xfe")):
        with pytest.raises(Unjudged):
            marks_of(kind, text)
