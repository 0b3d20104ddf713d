"""The cuts in each language: the first lines of segments."""

from __future__ import annotations

from statistics import median
from time import process_time

import pytest

from repoagent.split.splitter import cut_into_spans
from repoagent.syntax.parser import clear_cache, parse_bytes
from tests.split.helpers import segments


def first_lines(path: str, text: str, target: int, natural: bool = False) -> list[str]:
    data = text.encode()
    found = segments(path, data, target=target, natural=natural)
    assert not any(segment.oversize for segment in found)
    return [data[segment.start :].split(b"\n", 1)[0].decode() for segment in found[1:]]


def repeated(unit: str, count: int = 12) -> str:
    return "".join(unit.replace("@", str(n)) for n in range(count))


# path, text, target, what segments begin with
UNITS: list[tuple[str, str, int, str | tuple[str, ...]]] = [
    ("a.py", repeated("# about f@\n@wraps(x)\ndef f@(a):\n    if a:\n        return 1\n    return 2\n\n\n"), 200, "# about f"),
    ("a.py", "class A:\n" + repeated("    # of it\n    def f@(a):\n        b = a\n\n        return b\n\n"), 200, "    # of it"),
    ("a.js", repeated("/**\n * Doc of @.\n */\nexport function f@(a) {\n  if (a) {\n    return 1;\n  } else {\n    return 2;\n  }\n}\n\n"), 250, "/**"),
    ("a.ts", "class A {\n" + repeated("  /** Doc. */\n  @deco()\n  m@(): void {\n    go();\n  }\n\n").replace("0deco", "@deco") + "}\n", 180, "  /** Doc. */"),
    ("a.java", "class A {\n" + repeated("    // what\n    @Override\n    int f@() {\n        return 1;\n    }\n\n") + "}\n", 180, "    // what"),
    ("a.go", "package a\n\n" + repeated("// F@ does.\nfunc F@() int {\n\treturn 1\n}\n\n"), 150, "// F"),
    ("a.rs", repeated("/// Doc.\n#[inline]\nfn f@() -> u8 {\n    1\n}\n\n"), 150, "/// Doc."),
    ("a.c", repeated("/* Doc of @. */\n#ifdef X@\nint f@(void)\n{\n    return 1;\n}\n#endif\n\n"), 200, "/* Doc of "),
    ("a.cpp", "namespace a {\n" + repeated("// of f@\nint f@()\n{\n    return 1;\n}\n\n") + "}\n", 150, "// of f"),
    ("a.json", "{\n" + ",\n".join(f'  "k{n}": {{\n    "a": 1,\n    "b": [2]\n  }}' for n in range(20)) + "\n}\n", 150, '  "k'),
    ("a.yaml", repeated("# about k@\nk@:\n  a: 1\n  b:\n    - 2\n"), 150, "# about k"),
    ("a.xml", "<r>\n" + repeated("  <!-- e@ -->\n  <e>\n    <f/>\n  </e>\n") + "</r>\n", 180, "  <!-- e"),
    ("a.md", repeated("## Part @\n\nWords.\n\n```\n# no heading\n\n\n```\n\n"), 150, "## Part"),
    ("a.md", repeated("Part @\n------\n\nWords.\n\n### Below\n\nMore words.\n\n"), 150, "Part "),
    ("a.html", "<body>\n" + repeated("<h2>Part @</h2>\n<p>One\n<p>Two\n<ul>\n<li>a\n<li>b\n</ul>\n") + "</body>\n", 200, "<h2>"),
    ("a.css", repeated("/* of @ */\n.a@ {\n  color: red;\n  margin: 0;\n}\n\n"), 150, "/* of "),
    ("a.sh", repeated("# says @\nf@() {\n    if a; then\n        b\n    else\n        c\n    fi\n}\n\n"), 200, "# says "),
    ("a.rst", repeated("Part @\n======\n\nWords.\n\n.. note::\n\n    More.\n\n"), 150, "Part "),
    ("a.rst", repeated(".. _part@:\n\n.. index:: a\n   single: b\n\nPart @\n======\n\nWords.\n\n.. note::\n\n    More.\n\n"), 180, ".. _part"),
    ("a.rst", repeated(".. currentmodule:: a\n\nPart @\n======\n\nWords.\n\n.. note::\n\n    More.\n\n"), 150, ".. currentmodule"),
    ("a.rst", repeated(".. _figure@:\n\n.. figure:: a.png\n\n   Words of it.\n\n"), 120, ".. _figure"),
    ("a.md", repeated("# Part @\n\nWords.\n\n## In @\n\nMore.\n\n<a name='x@'></a>\n<a id='y@'></a>\n\n## Next @\n\nMore words.\n\n", 30), 70, ("# Part", "## In", "<a name")),
    ("a.md", repeated("`Part` @,\nin two lines\n---\n\nWords.\n\n### Below\n\nMore words.\n\n"), 150, "`Part"),
    ("a.html", "<body>\n" + repeated("<h2>Part @</h2>\n<ul>\n<li>a\n<li>b\n<li>c\n<li>d\n<li>e\n<li>f\n</ul>\n") + "</body>\n", 60, ("<h2>", "<li>")),
    ("a.html", "<table>\n<tr>\n" + repeated("<th>Term @</th>\n<td>What it means.</td>\n") + "</tr>\n</table>\n", 120, "<th>"),
    ("a.json", "[\n" + repeated("{\n\"b\": [\n{\"c\": 1},\n{\"c\": 2},\n{\"c\": 3}\n]\n}\n,{\n\"d\": 1,\n\"e\": 2,\n\"f\": 3\n}\n,")[:-1] + "]\n", 50, (",{", "{\"c\"")),
    ("a.java", "/**\n" + repeated(" * Words of paragraph @,\n * more of them.\n * <p>More.\n * <pre>\n * a\n *\n * b\n * </pre>\n *\n") + " */\nclass A {}\n", 180, (" * Words", " * <p>")),
    ("a.go", repeated("// Words of paragraph @,\n// more of them.\n//\n") + "func a() {\n}\n", 120, "// Words"),
    ("a.txt", repeated("A paragraph of a few words @,\nthat has two lines.\n\n"), 150, "A paragraph"),
    ("a.py", "def f(a):\n" + repeated("    # step @\n    b = @\n    if b:\n        c = b\n\n", 30), 300, "    # step "),
    ("a.py", repeated("try:\n    a@()\n    b()\nexcept E:\n    c()\nelse:\n    d()\n", 30), 150, "try:"),
    ("a.unknown", repeated("sub f@ {\n    one;\n\n    two;\n}\n\n"), 150, "sub f"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "target", "begins"), UNITS)
def test_a_unit_is_whole_and_has_its_comments(
    path: str, text: str, target: int, begins: str | tuple[str, ...]
) -> None:
    found = first_lines(path, text, target)
    assert len(found) > 1
    assert [line for line in found if not line.startswith(begins)] == []


def test_the_head_stays_with_the_body_and_a_bracket_with_what_it_ends() -> None:
    body = "".join(f"    a[{n}] = {n};\n" for n in range(60))
    for brace in (" {", "\n{"):
        text = "int before;\n" * 20 + f"\nint f(int a){brace}\n{body}}}\n" + "int after;\n" * 20
        found = first_lines("a.c", text, 260)
        assert not {"{", "}", "    a[0] = 0;"} & set(found)


def test_broken_code_costs_only_near_the_break() -> None:
    text = repeated("# f@\ndef f@(a):\n    b = a\n    return b\n\n\n", 40)
    broken = text.replace("def f20(a):", "def f20(a:\n  ]")
    whole, hurt = first_lines("a.py", text, 200), first_lines("a.py", broken, 200)
    assert len([line for line in hurt if not line.startswith("# f")]) <= 2
    assert len(set(whole) & set(hurt)) > len(whole) * 0.6


FUNCTIONS = repeated("// f@\nfunction f@(a) {\n  return a;\n}\n\n", 20)
METHODS = repeated("    /** Doc. */\n    int f@() {\n        return 1;\n    }\n\n", 4)


def test_embedded_code_larger_than_a_segment_is_opened() -> None:
    page = f"<html><head>\n<script>\n{FUNCTIONS}</script>\n</head>\n<body><p>x</p></body></html>\n".encode()
    inner = [part for part in segments("a.html", page, target=300)[1:] if part.boundary == "embedded"]
    assert len(inner) >= 2 and all(page.startswith(b"// f", segment.start) for segment in inner)


KEYS = repeated("k@:\n  a: 1\n  b: 2\n", 20)
PARAGRAPHS = repeated("<p>One @</p>\n<p>Two</p>\n", 20)
ENTRIES = "{\n" + ",\n".join(f'"k{n}": {{\n"a": 1\n}}' for n in range(20)) + "\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "begins"),
    [
        ("a.md", f"---\n{KEYS}---\n# Title\n", "k"),
        ("a.html", f'<script type="importmap">\n{ENTRIES}</script>\n', '"k'),
        ("a.html", f'<script type="text/html">\n{PARAGRAPHS}</script>\n', "<p>"),
    ],
)  # fmt: skip
def test_embedded_language(path: str, text: str, begins: str) -> None:
    data = text.encode()
    inner = [part for part in segments(path, data, target=150)[1:] if part.boundary == "embedded"]
    assert len(inner) >= 2 and all(data.startswith(begins.encode(), part.start) for part in inner)


@pytest.mark.parametrize(
    ("path", "text", "begins"),
    [
        ("a.py", "import a\nimport b\n\nfrom c import d\n\n" + repeated("# f@\ndef f@():\n    b()\n    return 1\n\n\n", 4),
         ["# f0", "# f1", "# f2", "# f3"]),
        # a node that contains all units is opened
        ("A.java", f"package a;\n\nclass A {{\n{METHODS}}}\n", ["class A {", *["    /** Doc. */"] * 3]),
        ("a.json", '{\n  "a": 1,\n  "b": {\n    "c": 2\n  },\n  "d": []\n}\n', ['  "b": {', '  "d": []']),
        ("a.md", "# Title\n\nWords.\n\n" + repeated("## Part @\n\nText.\n\n", 3), ["## Part 0", "## Part 1", "## Part 2"]),
    ],
)  # fmt: skip
def test_natural_gives_every_unit_a_segment(path: str, text: str, begins: list[str]) -> None:
    assert first_lines(path, text, 16_384, natural=True) == begins


def test_natural_opens_a_unit_that_is_too_large() -> None:
    text = "def small():\n    a()\n    b()\n\n\ndef large():\n" + repeated("    a@()\n", 90)
    found = first_lines("a.py", text, 300, natural=True)
    assert found[0] == "def large():"
    assert len(found) > 2


def test_items_that_follow_each_other_on_one_line_are_separated() -> None:
    items = "},".join(f"{n}: function () {{\n  a({n});\n\n  b({n});\n" for n in range(30))
    data = f"x = {{\n{items}}}}};\n".encode()
    found = segments("a.js", data, target=300)
    assert all(data[segment.start - 2 : segment.start] == b"}," for segment in found[1:])


def test_incomplete_code_loses_no_byte() -> None:
    for path in ("a.c", "a.cpp", "a.py", "a.js", "a.html", "a.go"):
        for end in ("f(", "int f(void)\n", "<p", "{", "if (a)\n", "x ="):
            data = ("int a;\n" * 40 + end).encode()
            found = segments(path, data, target=100)
            assert b"".join(data[segment.start : segment.end] for segment in found) == data, (path, end)


@pytest.mark.soak
def test_yaml_of_more_lines_than_its_grammar_can_count() -> None:
    text = "kind: list\nitems:\n" + repeated("# about k@\n- a: 1\n  b:\n    - 2\n", 12_000)
    assert {line.rstrip("0123456789") for line in first_lines("a.yaml", text, 4096)} == {"# about k"}


@pytest.mark.soak
def test_cutting_takes_little_more_than_parsing() -> None:
    unit = "# of f@\ndef f@(a):\n    if a:\n        return [a, 1, {'b': a}]\n    return a\n\n\n"
    data = repeated(unit, 6000).encode()

    def spent(parse: bool) -> float:
        clear_cache()
        start = process_time()
        if parse:
            parse_bytes(data, "python")
        else:
            cut_into_spans("a.py", data)
        return process_time() - start

    spent(True), spent(False)
    pairs = [(spent(False), spent(True)) for _ in range(7)]
    assert median(ours / bare for ours, bare in pairs) < 1.5
