from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.languages import LANGUAGES
from repoagent.syntax.outline import outline
from repoagent.syntax.symbol import Symbol, render_outline

NAMES = {language: "x" + spec.suffixes[0] for language, spec in LANGUAGES.items()}


def names(path: str, text: str) -> list[tuple[str, str, int, int]]:
    return [(s.kind, s.qualified_name, s.first_line, s.last_line) for s in outline(path, text.encode())]


def test_python() -> None:
    text = (
        "#!/usr/bin/env python\n"
        "def first():\n    pass\n\n"
        "x = 1  # about x\n"
        "# what A is\n# for\n@dec(1)\nclass A(Base):\n"
        "    # odd place\n"
        "    def m(self, a: int = 1) -> str:  # note\n        def inner(): ...\n        return ''\n\n"
        "    @property\n    async def p(self): ...\n"
        "if x:\n    def late(): ...\n"
    )
    assert names("a.py", text) == [
        ("function", "first", 2, 3),
        ("class", "A", 6, 16),
        ("method", "A.m", 10, 13),
        ("function", "A.m.inner", 12, 12),
        ("method", "A.p", 15, 16),
        ("function", "late", 18, 18),
    ]
    found = outline("a.py", text.encode())
    assert [s.signature for s in found[1:4]] == [
        "class A(Base)",
        "def m(self, a: int = 1) -> str",
        "def inner()",
    ]
    assert [s.depth for s in found] == [0, 0, 1, 2, 1, 0]


def test_a_blank_line_or_another_column_cuts_a_comment_off() -> None:
    text = "# license\n\ndef a():\n    pass\n    # end of a\ndef b():\n    pass\n"
    assert names("a.py", text) == [("function", "a", 3, 5), ("function", "b", 6, 7)]


def test_javascript_and_typescript() -> None:
    text = (
        "/** doc */\nexport default class A extends B {\n  @dec()\n  m() { el.onclick = () => {} }\n"
        "  get = () => 1;\n}\n"
        "export const f = async (a) => {\n  return 1\n};\n"
        "Foo.prototype.bar = function () {};\nexports.q = function () {};\n"
        "const api = { get() {}, x: 1 };\nfunction* gen() {}\n"
    )
    common = [
        ("class", "A", 1, 6),
        ("method", "A.m", 3, 4),
        ("method", "A.get", 5, 5),
        ("function", "f", 7, 9),
        ("function", "Foo.bar", 10, 10),
        ("function", "q", 11, 11),
        ("object", "api", 12, 12),
        ("method", "api.get", 12, 12),
        ("function", "gen", 13, 13),
    ]
    assert names("a.js", text) == common
    assert names("a.ts", text) == common
    typed = (
        "export interface I {\n  m(): void\n}\nenum E { A }\nnamespace N.M { export function g(): void {} }\n"
        "type T = string |"
        " number;\nabstract class Q { abstract m(): void }\ndeclare function d(a: T): void;\n"
    )
    assert names("a.tsx", typed) == [
        ("interface", "I", 1, 3),
        ("declaration", "I.m", 2, 2),
        ("enum", "E", 4, 4),
        ("namespace", "N.M", 5, 5),
        ("function", "N.M.g", 5, 5),
        ("type", "T", 6, 6),
        ("class", "Q", 7, 7),
        ("declaration", "Q.m", 7, 7),
        ("declaration", "d", 8, 8),
    ]


def test_java() -> None:
    text = (
        "package p;\n/** doc */\n@Ann\npublic class A {\n  A() {}\n  // m\n  @Override\n"
        "  public void m() {}\n"
        "  enum E { X; void p() {} }\n  record R(int a) {}\n}\n"
    )
    assert names("A.java", text) == [
        ("class", "A", 2, 11),
        ("method", "A.A", 5, 5),
        ("method", "A.m", 6, 8),
        ("enum", "A.E", 9, 9),
        ("method", "A.E.p", 9, 9),
        ("class", "A.R", 10, 10),
    ]


def test_go() -> None:
    text = (
        "package a\n\n// M does.\nfunc (s *Server[T]) M() error { return nil }\nfunc F() {}\n"
        "// S is.\ntype S struct {\n\ta int\n}\ntype (\n\t// I is.\n\tI interface {\n\t\tN()\n\t}\n"
        "\tX int\n)\n"
    )
    assert names("a.go", text) == [
        ("method", "Server.M", 3, 4),
        ("function", "F", 5, 5),
        ("struct", "S", 6, 9),
        ("interface", "I", 11, 14),
        ("declaration", "I.N", 13, 13),
        ("type", "X", 15, 15),
    ]


def test_rust() -> None:
    text = (
        "/// doc\n#[derive(Debug)]\npub struct S<T> {\n    a: T,\n}\n\nimpl<T> fmt::Display for S<T> {\n"
        "    /// one\n    fn m(&self) {}\n}\ntrait Tr { fn t(&self); }\nmod tests {\n    #[test]\n"
        "    fn t() {}\n}\n"
        "macro_rules! mm { () => {} }\n"
    )
    assert names("a.rs", text) == [
        ("struct", "S", 1, 5),
        ("impl", "impl<T> fmt::Display for S<T>", 7, 10),
        ("method", "S.m", 8, 9),
        ("interface", "Tr", 11, 11),
        ("declaration", "Tr.t", 11, 11),
        ("namespace", "tests", 12, 15),
        ("function", "tests.t", 13, 14),
        ("macro", "mm", 16, 16),
    ]


def test_c() -> None:
    text = (
        "/* doc\n * more */\nstatic int f(int a)\n{\n\tint local(void);\n\treturn 1;\n}\n"
        "char **g(void);\nint (*pointer)(int);\n"
        "struct S {\n\tint a;\n};\n/* t */\ntypedef struct { int b; } Anon;\n"
        "typedef struct T { int b; } T_t;\n"
        "int (*h(int a))(int) { return 0; }\n#define M(a) a\n"
    )
    assert names("a.c", text) == [
        ("function", "f", 1, 7),
        ("declaration", "g", 8, 8),
        ("struct", "S", 10, 12),
        ("struct", "Anon", 13, 14),
        ("struct", "T", 15, 15),
        ("function", "h", 16, 16),
        ("macro", "M", 17, 17),
    ]


def test_cpp() -> None:
    text = (
        "namespace a::b {\n// doc\ntemplate <typename T>\nclass C : public D {\n public:\n  C();\n"
        "  ~C() {}\n  T &ref() const;\n"
        "  bool operator==(const C& o) const { return true; }\n};\n"
        "template <> int C<int>::p() { return 1; }\n}\n"
        "enum class E { A };\nint& Foo::operator[](int i) { return i; }\n"
    )
    assert names("a.cpp", text) == [
        ("namespace", "a.b", 1, 12),
        ("class", "a.b.C", 2, 10),
        ("declaration", "a.b.C.C", 6, 6),
        ("method", "a.b.C.~C", 7, 7),
        ("declaration", "a.b.C.ref", 8, 8),
        ("method", "a.b.C.operator==", 9, 9),
        ("function", "a.b.C.p", 11, 11),
        ("enum", "E", 13, 13),
        ("function", "Foo.operator[]", 14, 14),
    ]


def test_data_files_are_shallow() -> None:
    assert names("a.json", '{\n  "a": 1,\n  "b": {\n    "c": {"d": 1}\n  }\n}\n') == [
        ("key", "a", 2, 2),
        ("key", "b", 3, 5),
        ("key", "b.c", 4, 4),
    ]
    assert names("a.yml", "# doc\na: 1\n'b':\n  c: 2\n  d:\n    - e: 1\n") == [
        ("key", "a", 1, 2),
        ("key", "b", 3, 6),
        ("key", "b.c", 4, 4),
        ("key", "b.d", 5, 6),
    ]
    assert names("a.xml", "<a>\n<!-- b -->\n<b id='1'><c/></b>\n</a>\n") == [
        ("element", "a", 1, 4),
        ("element", "a.b#1", 2, 3),
    ]


def test_list_entries_are_called_by_their_name() -> None:
    text = '{"a": [{"name": "x", "v": {"name": "no"}},\n {"v": 1, "id": 3}, {"q": {"id": 4}}, 5]}'
    assert names("a.json", text) == [
        ("key", "a", 1, 2),
        ("entry", "a.x", 1, 1),
        ("entry", "a.3", 2, 2),
    ]
    assert names("a.json", '[{"title": "t",\n"b": 1}, {"id": "i", "name": "n"}]') == [
        ("entry", "t", 1, 2),
        ("entry", "n", 2, 2),
    ]
    assert names("a.yml", "jobs:\n  # about x\n  - name: x\n    run: y\n  - {id: 2}\n  - plain\n") == [
        ("key", "jobs", 1, 6),
        ("entry", "jobs.x", 2, 4),
        ("entry", "jobs.2", 5, 5),
    ]


def test_comments_of_keys_and_elements_stand_where_grammars_put_them() -> None:
    assert names("a.yml", "# top\na:\n  # one\n  # two\n  b: 1\n  # three\n  c: 2\n") == [
        ("key", "a", 1, 7),
        ("key", "a.b", 3, 5),
        ("key", "a.c", 6, 7),
    ]
    assert names("a.xml", "<?xml version='1.0'?>\n<!-- why -->\n<a>\n  <!-- b -->\n  <b/>\n</a>\n") == [
        ("element", "a", 2, 6),
        ("element", "a.b", 4, 5),
    ]


def test_objects_of_functions() -> None:
    text = (
        "module.exports = {\n  a: function () {},\n  b() {},\n  c: 1,\n};\n"
        "export default {\n  methods: {\n    go() {\n    },\n  },\n};\n"
        "export const N = 1;\nconst hidden = 2;\nexport default function () {}\n"
        "function Old() {\n  this.m = function () {};\n  el.onclick = () => {};\n}\n"
    )
    assert names("a.js", text) == [
        ("object", "exports", 1, 5),
        ("function", "exports.a", 2, 2),
        ("method", "exports.b", 3, 3),
        ("object", "methods", 7, 10),
        ("method", "methods.go", 8, 9),
        ("constant", "N", 12, 12),
        ("function", "default", 14, 14),
        ("function", "Old", 15, 18),
        ("function", "Old.m", 16, 16),
    ]


def test_overloads_private_members_and_what_is_declared() -> None:
    text = (
        "function over(a: string): void;\nfunction over(a: any) {}\n"
        "class Z {\n  #p() {}\n  constructor(a?: any) {}\n  f = function () {};\n  x = 1;\n}\n"
        "declare global {\n  interface W {\n    m(): void;\n  }\n}\n"
    )
    assert names("a.ts", text) == [
        ("declaration", "over", 1, 1),
        ("function", "over", 2, 2),
        ("class", "Z", 3, 8),
        ("method", "Z.#p", 4, 4),
        ("method", "Z.constructor", 5, 5),
        ("method", "Z.f", 6, 6),
        ("interface", "W", 10, 12),
        ("declaration", "W.m", 11, 11),
    ]


def test_what_stands_in_java_members() -> None:
    text = (
        "@interface An { int v() default 1; }\nclass A {\n  Object o = new X() {\n    void m() {}\n  };\n"
        "  enum E { P { void q() {} } }\n  record R(int a) { R { } }\n}\n"
    )
    assert names("A.java", text) == [
        ("interface", "An", 1, 1),
        ("method", "An.v", 1, 1),
        ("class", "A", 2, 8),
        ("method", "A.m", 4, 4),
        ("enum", "A.E", 6, 6),
        ("method", "A.E.q", 6, 6),
        ("class", "A.R", 7, 7),
        ("method", "A.R.R", 7, 7),
    ]


def test_constants_and_variables_of_a_package() -> None:
    text = "package a\nconst (\n\tA = 1\n\t// b\n\tB\n)\nvar C = func() {}\nfunc f() {\n\tvar local int\n\ttype T int\n}\n"
    assert names("a.go", text) == [
        ("constant", "A", 3, 3),
        ("constant", "B", 4, 5),
        ("function", "C", 7, 7),
        ("function", "f", 8, 11),
        ("type", "f.T", 10, 10),
    ]
    rust = 'pub const A: u8 = 1;\nextern "C" { fn q(a: u8); }\nimpl T for S { const C: u8 = 1; }\nfn f() { const L: u8 = 1; fn g() {} }\n'
    assert names("a.rs", rust) == [
        ("constant", "A", 1, 1),
        ("declaration", "q", 2, 2),
        ("impl", "impl T for S", 3, 3),
        ("constant", "S.C", 3, 3),
        ("function", "f", 4, 4),
        ("function", "f.g", 4, 4),
    ]


def test_macros_that_the_grammar_can_not_know() -> None:
    text = (
        '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        'API_CALL struct a * first(int x);\nDEPRECATED(API_CALL int old(int a,\n  int b), "use first");\n'
        "API_CALL void last(void);\n#ifdef __cplusplus\n}\n#endif\n"
    )
    assert names("a.h", text) == [
        ("declaration", "first", 4, 4),
        ("declaration", "old", 5, 6),
        ("declaration", "last", 7, 7),
    ]
    spaced = "LIB_NAMESPACE_BEGIN\nnamespace detail\n{\nint f() { return 1; }\nnamespace\n{\nint g() { return 1; }\n}\n}\nLIB_NAMESPACE_END\n"
    assert names("a.hpp", spaced) == [
        ("namespace", "detail", 2, 9),
        ("function", "detail.f", 4, 4),
        ("function", "detail.g", 7, 7),
    ]
    exported = "class EXPORT Foo : public Bar {\n public:\n  int m() { return 1; }\n  ~Foo();\n};\n"
    assert names("a.cpp", exported) == [
        ("class", "Foo", 1, 5),
        ("method", "Foo.m", 3, 3),
        ("declaration", "Foo.~Foo", 4, 4),
    ]
    assert names("a.c", "int kr(a, b)\nint a;\nchar *b;\n{\n\treturn a;\n}\n") == [("function", "kr", 1, 6)]


def test_items_in_the_braces_of_a_macro() -> None:
    text = (
        "cfg_net! {\n    /// doc\n    pub fn bind(a: u8) {\n    }\n    impl S {\n        fn m(&self) {}\n    }\n}\n"
        "vec_of! { fn => 1 }\nfn last() { call! { fn inner() {} } }\n"
    )
    assert names("a.rs", text) == [
        ("function", "bind", 2, 4),
        ("impl", "impl S", 5, 7),
        ("method", "S.m", 6, 6),
        ("function", "last", 10, 10),
    ]


def test_titles_and_nested_rules() -> None:
    assert names("a.html", "<h2 id=x>One <b>two</b></h2>\n<script id=s>function f() {}</script>\n") == [
        ("heading", "One two", 1, 2),
        ("element", "One two.#s", 2, 2),
    ]
    assert names("a.css", "a {\n  b: c;\n  &:hover { d: e }\n}\n@layer base {\n  p { q: r }\n}\n") == [
        ("selector", "a", 1, 4),
        ("selector", "a.&:hover", 3, 3),
        ("rule", "@layer base", 5, 7),
        ("selector", "@layer base.p", 6, 6),
    ]


def test_a_head_of_several_lines_reads_as_one() -> None:
    text = b"def f(\n    a: int,\n    b: int = 1,\n) -> dict[\n    str, int\n]:\n    pass\n"
    assert outline("a.py", text)[0].signature == "def f(a: int, b: int = 1) -> dict[str, int]"


def test_markdown_sections_end_at_the_next_heading() -> None:
    text = (
        "---\nt: 1\n---\n# A *x* #\ntext\n## B\n```sh\n# no heading\n```\n> # quoted\n\nSet\n===\n#### C\nend"
    )
    assert names("a.md", text) == [
        ("heading", "A *x*", 4, 11),
        ("heading", "A *x*.B", 6, 11),
        ("heading", "Set", 12, 15),
        ("heading", "Set.C", 14, 15),
    ]


def test_html_css_bash() -> None:
    assert names("a.html", "<body>\n<div id='x'>\n<h1>Title</h1>\n</div>\n</body>\n") == [
        ("element", "#x", 2, 4),
        ("heading", "#x.Title", 3, 3),
    ]
    assert names("a.css", "/* doc */\na.b,\nc > d {\n  e: f\n}\n@media (x) {\n  q { a: b }\n}\n") == [
        ("selector", "a.b, c > d", 1, 5),
        ("rule", "@media (x)", 6, 8),
        ("selector", "@media (x).q", 7, 7),
    ]
    assert names("a.sh", "#!/bin/sh\n# doc\nf() {\n  :\n}\nfunction g { :; }\n") == [
        ("function", "f", 2, 5),
        ("function", "g", 6, 6),
    ]


def test_encodings_keep_names_and_lines() -> None:
    text = "class Größe:\r\n    def ä(self):\r\n        pass\r\n"
    expected = [("class", "Größe", 1, 3), ("method", "Größe.ä", 2, 3)]
    for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16"), text.encode("latin-1")):
        assert [
            (s.kind, s.qualified_name, s.first_line, s.last_line) for s in outline("a.py", data)
        ] == expected


def test_an_error_costs_only_what_is_near() -> None:
    text = "def a():\n    pass\n\ndef b(:\n    pass\n\ndef c():\n    pass\n"
    assert {"a", "c"} <= {s.name for s in outline("a.py", text.encode())}


def test_no_grammar_no_symbols() -> None:
    assert outline("a.unknown", b"def f(): pass") == ()
    assert outline("a.py", b"def f(): pass\0") == ()


def test_names_from_files_can_not_forge_lines() -> None:
    data = '{"a\u2028b\u202e": 1, "\\u001b": 2, "x\x1b[31m": 3}'.encode()
    rendered = render_outline(outline("a.json", data))
    assert all(line.isprintable() for line in rendered.split("\n"))


def test_render() -> None:
    text = b"class A:\n    def m(self):\n        def deep(): ...\n        return 1\n\n\ndef f(): ...\n"
    symbols = outline("a.py", text)
    assert render_outline(symbols) == "1-4  class A\n2-4    def m(self)\n  3      def deep()\n  7  def f()\n"
    assert render_outline(symbols, limit=3) == "1-4  class A\n2-4    def m(self)\n  7  def f()\n(1 more)\n"
    assert render_outline(symbols, limit=1) == "1-4  class A\n(3 more)\n"
    assert render_outline(()) == ""


@pytest.mark.soak
def test_many_symbols_stay_quick() -> None:
    import time

    data = b"{" + b",\n".join(b'"k%d": {"a": 1, "b": [2]}' % n for n in range(20_000)) + b"}"
    started = time.monotonic()
    assert len(outline("a.json", data)) == 10_000
    assert time.monotonic() - started < 8  # a quadratic search took 15 seconds for this


TOKENS = st.sampled_from(
    [
        "def f(x):",
        "class A {",
        "}",
        "{",
        "(",
        ")",
        "[",
        "]",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "# c\n",
        "// c\n",
        "/* c */",
        '"',
        "'",
        "`",
        "=>",
        "function ",
        "struct S ",
        "impl A for B ",
        "fn f()",
        ";",
        ",",
        ":",
        "- a",
        "a: 1\n",
        "---\n",
        "<a id='b'>",
        "</a>",
        "<h1>x</h1>",
        "@media ",
        "#x",
        ".y ",
        "é",
        "\u2028",
        "\r\n",
        "=",
        "type T ",
        "func (s *S) M()",
        "namespace a::b {",
        "operator",
        "~",
        "template <class T>",
        "exports.a = function",
        "key: ",
        "export default ",
        "@dec\n",
        "\x00",
    ]
)


def check_ranges(symbols: tuple[Symbol, ...], data: bytes) -> None:
    open_: list[Symbol] = []
    for symbol in symbols:
        assert 1 <= symbol.first_line <= symbol.last_line <= data.count(b"\n") + 1
        assert symbol.depth <= len(open_)
        del open_[symbol.depth :]
        if open_:
            assert open_[-1].first_line <= symbol.first_line
            assert symbol.last_line <= open_[-1].last_line
        open_.append(symbol)
        assert symbol.signature.isprintable()


@pytest.mark.soak
@pytest.mark.parametrize("language", sorted(LANGUAGES))
@settings(max_examples=60, deadline=None)
@given(
    data=st.one_of(
        st.binary(max_size=300), st.lists(TOKENS, max_size=40).map(lambda parts: "".join(parts).encode())
    )
)
def test_any_bytes(language: str, data: bytes) -> None:
    symbols = outline(NAMES[language], data)
    check_ranges(symbols, data)
    render_outline(symbols, limit=5)


@settings(max_examples=30, deadline=None)
@given(text=st.lists(TOKENS, max_size=30).map("".join))
def test_any_utf16(text: str) -> None:
    data = text.encode("utf-16")
    check_ranges(outline("a.py", data), text.encode())


@pytest.mark.soak
def test_wide_and_deep_files_stay_quick_and_do_not_overflow() -> None:
    import time

    wide = b"".join(b"def f%d(a):\n    return a\n\n" % n for n in range(8000))
    deep = b"".join(b"%sclass C%d:\n" % (b" " * n, n) for n in range(400)) + b" " * 400 + b"x = 1\n"
    started = time.process_time()
    assert len(outline("a.py", wide)) == 8000
    assert len(outline("a.py", deep)) == 400
    assert outline("a.js", b"(" * 20_000 + b"function f() {}") is not None
    assert outline("a.html", b"<p id=x>" * 3000)[0].name == "#x"
    assert time.process_time() - started < 8  # each of these is quadratic in a naive walk


@pytest.mark.soak
@pytest.mark.parametrize(("language", "most"), [("python", 0.6), ("javascript", 0.8), ("rust", 0.6)])
def test_an_outline_costs_less_than_the_parse(language: str, most: float) -> None:
    import time

    from repoagent.syntax.outline import symbols_of
    from repoagent.syntax.parser import parse

    body = {
        "python": b"def f%d(a, b):\n    # why\n    if a:\n        return g(a, [b, 1], c={'x': a + b * 2})\n    return a.b.c(1)\n\n",
        "javascript": b"function f%d(a, b) {\n  if (a) {\n    return g(a, [b, 1], { x: a + b * 2 });\n  }\n  return a.b.c(1);\n}\n",
        "rust": b"/// doc\nfn f%d(a: u8, b: u8) -> u8 {\n    let x = g(a, &[b, 1], a + b * 2);\n    x.y(1).z(a.b.c)\n}\n",
    }[language]
    text = b"".join(body % n for n in range(1500))
    ratios = []
    for _ in range(5):
        started = time.process_time()
        tree = parse(text, language)
        parsed = time.process_time()
        assert len(symbols_of(tree, text, language)) == 1500
        ratios.append((time.process_time() - parsed) / (parsed - started))
    assert sorted(ratios)[2] < most
