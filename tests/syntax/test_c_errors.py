"""The check of C and C++: errors that macros may explain are only doubted, others are refused."""

from __future__ import annotations

import pytest

from repoagent.syntax.c_errors import new_c_faults
from repoagent.syntax.regressions import parse_doubt, parses_worse

C = b"""\
#include <stdio.h>

struct list { struct list *next; int value; };

/* The sum of a list. */
int sum(struct list *l)
{
\tint total = 0;
\tstruct list *p;

\tfor (p = l; p; p = p->next) {
\t\ttotal += p->value;
\t}
\tif (total < 0)
\t\tputs("negative");
\treturn total;
}

int last(void)
{
\treturn 1;
}
"""
CPP = b"""\
#include <string>

namespace app {

class A {
public:
    int size() const { return size_; }

private:
    int size_ = 0;
};

std::string name(const A &a)
{
    return std::to_string(a.size());
}

}  // namespace app
"""
IN_C, END_OF_C, END_OF_CPP = b"\treturn total;\n", b"int last(void)\n", b"std::string name("


@pytest.mark.parametrize(
    ("path", "at", "added"),
    [
        ("a.c", END_OF_C, b"EXPORT_API int b(void)\n{\n\treturn 2;\n}\n"),
        ("a.c", END_OF_C, b"static int __init b(void)\n{\n\treturn 2;\n}\n"),
        ("a.c", IN_C, b"\tlist_for_each(p, l) {\n\t\ttotal++;\n\t}\n"),
        ("a.c", IN_C, b"\tlist_for_each(p, l)\n\t\ttotal++;\n"),
        ("a.c", END_OF_C, b"int b(int) MUST_CHECK;\n"),
        ("a.c", END_OF_C, b"static int b(int) __attribute__((unused)) __must_check;\n"),
        ("a.c", END_OF_C, b"MODULE_LICENSE(\"GPL\")\n\nDEFINE_LIST(things)\n"),
        ("a.c", IN_C, b"#ifdef X\n\tif (p) {\n#else\n\tif (l) {\n#endif\n\t\ttotal++;\n\t}\n"),
        ("a.c", IN_C, b"#ifdef X\n\tif (p) {\n#endif\n\t\ttotal++;\n#ifdef X\n\t}\n#endif\n"),
        ("a.c", IN_C, b"#ifdef X\n\tif (p) {\n#endif\n#ifndef X\n\tif (l) {\n#endif\n\t\ttotal++;\n\t}\n"),
        ("a.c", END_OF_C, b"#if 0\nThis doesn't compile, and isn't meant to {\n#endif\n"),
        ("a.c", IN_C, b"\tCHECK(total, <=, 5);\n\tWITH(x)\n\ttotal = 'ab' + L'c';\n"),
        ("a.c", IN_C, b"\tprintf(\"%\" PRId64 \"\\n\", (int64_t)total);\n\ttotal = (int)\n\t\tsum(l);\n"),
        ("a.c", IN_C, b"\tstruct list x = (struct list) {\n\t\t.value = total\n\t};\n"),
        ("a.c", IN_C, b'#define GLOB "src/*" R"(x" // or lib/*\n'),
        ("a.c", IN_C, b'\tputs(R"(x");\n'),
        ("a.cpp", b"public:\n", b"    Q_OBJECT\n    Q_PROPERTY(int size READ size)\n"),
        ("a.cpp", END_OF_CPP, b"class MY_EXPORT B : public A\n{\n    Q_OBJECT\n};\n"),
        ("a.cpp", END_OF_CPP, b"template <typename T> API_INLINE T twice(T t) NOEXCEPT { return t + t; }\n"),
        ("a.cpp", END_OF_CPP, b"TEST_CASE(\"a\")\n{\n    SECTION(\"b\")\n    {\n        CHECK(1);\n    }\n}\n"),
        ("a.cpp", END_OF_CPP, b"const char *text = R\"x(\n  don't } { )\n)x\";\nint big = 1'000'000;\n"),
        ("a.cu", END_OF_CPP, b"__global__ void k(int *x) { x[0] = 1; }\nvoid go() { k<<<1, 2>>>(nullptr); }\n"),
    ],
)  # fmt: skip
def test_code_that_a_macro_explains_is_accepted(path: str, at: bytes, added: bytes) -> None:
    before = C if path == "a.c" else CPP
    place = before.index(at) + (len(at) if at == b"public:\n" else 0)
    after = before[:place] + added + before[place:]
    edited = after.replace(b"total = 0", b"total = 1").replace(b"size_ = 0", b"size_ = 1")
    # and so is an edit next to it, in both directions
    for old, new in ((before, after), (None, after), (after, edited), (after, before)):
        assert parses_worse(path, old, new) is None


WITH_LOOP = C.replace(IN_C, b"\tlist_for_each(p, l) {\n\t}\n" + IN_C)
MACROS = WITH_LOOP.replace(b"int last", b"EXPORT_API int last")


@pytest.mark.parametrize("before", [C, MACROS], ids=["plain", "with macros"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\t\ttotal += p->value;\n\t}\n", b"\t\ttotal += p->value;\n", "missing"),
        (b"p = p->next) {", b"p = p->next {", "missing|not closed"),
        (b"\tif (total < 0)\n", b"\t}\n\tif (total < 0)\n", "too many|line"),
        (b'puts("negative");', b'puts("negative);', '`"` on line 15 is not closed'),
        (b"\treturn total;\n", b"\treturn total\n", "a `;` is missing on line 1"),
        (b"int total = 0;", b"int total = 0", "a `;` is missing on line 8"),
        (b"\tif (total < 0)\n", b"\ttotal += sum(l)\n\tif (total < 0)\n", "a `;` is missing on line 14"),
        (b"\tif (total < 0)\n", b"\tsum(l)\n\tif (total < 0)\n", "a `;` is missing on line 14"),
        (b"\tif (total", b"\tThe rest of the function stays the same.\n\tif (total", "line 14 is not code"),
        (b"\tif (total", b"I've changed the sum, so it doesn't overflow.\n\tif (total", "line 14|`'`"),
        (b"\tif (total", b"```\n\tif (total", "stray ``` on line 14"),
        (b"*/\n", b"\n", "comment on line 5 is not closed"),
        (b"\treturn 1;\n}\n", b"\treturn 1;\n", "missing|not closed"),
        (b"\tif (total", b"#ifdef X\n\tif (l) {\n#else\n\tif (p)\n#endif\n\t\tp = l;\n\t}\n\tif (total", "different brackets"),
    ],
)  # fmt: skip
def test_code_that_no_macro_explains_is_refused(before: bytes, old: bytes, new: bytes, message: str) -> None:
    assert before.count(old) == 1
    sentence = parses_worse("a.c", before, before.replace(old, new))
    assert sentence is not None and sentence.startswith("a.c would no longer parse as c: ")
    assert any(words in sentence for words in message.split("|")), sentence


def test_a_truncated_file_is_refused() -> None:
    for path, text in (("a.c", C), ("a.c", MACROS), ("a.cpp", CPP)):
        cut = text[: text.rindex(b"return") + 10]
        assert parses_worse(path, text, cut) and parses_worse(path, None, cut)


def test_code_that_a_macro_may_explain_is_doubted() -> None:
    doubt = "a.c may not parse as c, unless a macro makes it valid: a `;` is missing on line 16"
    assert parse_doubt("a.c", C, WITH_LOOP) == doubt
    for before in (WITH_LOOP, C):
        assert parse_doubt("a.c", before, before.replace(b"total = 0", b"total = 1")) is None


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (b"#if A\n#else\n}\n#endif\n", []),  # only the first branch counts
        (b"#if A\n}\n#else\n}\n#endif\n}\n", [1, 5]),
        (b"void f() {\n    if (x) {\n        g();\n}\n", [1]),  # by its column, the `if` is not closed
        (b"void f() {\n    if (x) {\n        g(;\n    }\n", [0, 2]),
    ],
)
def test_the_line_of_an_unbalanced_bracket(code: bytes, lines: list[int]) -> None:
    assert [fault.line for fault in new_c_faults(b"", code)] == lines
