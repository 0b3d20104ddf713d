from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from repoagent.split.splitter import cut_into_spans
from repoagent.syntax.c_errors import new_c_faults
from repoagent.syntax.outline import outline
from repoagent.syntax.parser import clear_cache, error_count, may_overflow, parse_bytes, parse_within
from repoagent.syntax.regressions import parses_worse

# Each nests `n` blocks: every way to open a block in YAML, alone, mixed, on one line and on many.
NESTED = """{
    "sequences": lambda n: b"- " * n + b"x\\n",
    "keys": lambda n: b"? " * n + b"x\\n",
    "values": lambda n: b": " * n + b"x\\n",
    "mixed": lambda n: (b"- ? : " * n)[: 2 * n] + b"x\\n",
    "mappings": lambda n: b"".join(b" " * i + b"a:\\n" for i in range(n)),
    "indented sequences": lambda n: b"".join(b" " * i + b"-\\n" for i in range(n)),
    "level sequences": lambda n: b"".join(b" " * i + b"a:\\n" + b" " * i + b"-\\n" for i in range(n // 2))
    + (b" " * (n // 2) + b"a:\\n") * (n % 2),
    "block scalar": lambda n: b"- " * (n - 1) + b"|\\n" + b" " * 2 * n + b"x\\n",
    "after an error": lambda n: b"}\\n" + b"- " * n + b"x\\n",
}"""
CHILD = f"""
from repoagent.syntax.parser import error_count; from repoagent.syntax.outline import outline; from repoagent.syntax.regressions import parses_worse; from repoagent.split.splitter import cut_into_spans
from repoagent.syntax.parser import parse_within
for name, text in {NESTED}.items():
    for n in 253, 254, 1200:
        data = text(n)
        print(name, n, parse_within(data, "yaml", 60) is not None, flush=True)
        error_count("a.yaml", data), outline("a.yaml", data), cut_into_spans("a.yaml", data)[1]()
        parses_worse("a.yaml", b"a: 1\\n", data)
string = b"rb'"  # a string without its end, then 511 blocks
for n in 511, 600:
    for head in (b"", string, b'f"{{', b"x = (" + string):
        data = b"".join(b" " * i + b"if x:" + head + b"\\n" for i in range(n))
        parse_within(data, "python", 60), outline("a.py", data)
print("alive")
"""


def test_text_that_nests_too_deeply_does_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], check=False, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stdout.splitlines()[-1:], done.stderr)
    *cases, last = done.stdout.splitlines()
    assert last == "alive"
    for case in cases:
        name, n, parsed = case.rsplit(" ", 2)
        if name != "after an error":  # the grammar does not read it to its end
            assert parsed == str(int(n) < 254), case


def test_text_that_nests_too_deeply_has_no_outline_and_no_errors() -> None:
    deep = b"".join(b" " * i + b"a:\n" for i in range(254))
    assert parse_within(deep, "yaml", 60) is None
    assert error_count("a.yaml", deep) is None
    assert outline("a.yaml", deep) == ()
    assert parses_worse("a.yaml", b"a: 1\n", deep) is None
    assert b"".join(deep[start:end] for start, end, _ in cut_into_spans("a.yaml", deep)[0]) == deep


def test_a_large_flat_file_has_the_same_tree_with_the_bounded_grammar() -> None:
    flat = b"".join(b"k%d:\n  - a: 1\n  - |\n    text: x\n" % n for n in range(200))
    assert may_overflow(flat, "yaml") and not may_overflow(flat[:500], "yaml")
    tree, part = parse_bytes(flat, "yaml"), parse_bytes(flat[:500], "yaml")
    assert tree is not None and part is not None and not tree.root_node.has_error
    assert str(tree.root_node).startswith(str(part.root_node)[:400])
    wide = b"if x:\n" + b" " * 400 + b"y = 1\n"
    assert may_overflow(wide, "python") and error_count("a.py", wide) == 0


@pytest.mark.skipif(find_spec("tree_sitter_ruby") is None, reason="the extra is not installed")
def test_the_heredocs_of_ruby_stay_within_the_buffer() -> None:
    words = b", ".join(b"<<" + b"W" * 50 + b"%02d" % n for n in range(40))
    code = (
        "import sys; from repoagent.syntax.outline import outline; data = sys.stdin.buffer.read()\n"
        "for n in range(len(data)): outline('a.rb', data[n:] if n < 60 else data[:-n])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, input=words + b"\n", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert error_count("a.rb", b"a = <<~X\n  b\nX\n") == 0
    assert error_count("a.rb", b"<<" + b"W" * 300 + b"\n") is None


def test_many_comments_before_the_first_child_of_an_element() -> None:
    named = b"<name>x</name>"
    for children, name in ((b"<b/>", "a"), (named, "a#x"), (b"<b/><!-- c -->" + named, "a")):
        data = b"<r>\n<a>\n" + b"<!-- c -->\n" * 60 + children + b"\n</a>\n</r>\n"
        assert [symbol.name for symbol in outline("a.xml", data)][:2] == ["r", name]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.c", b"struct a\n" * 24_000),
        ("a.java", b"new " * 48_000),
        ("a.js", b"x = function" + b" " * 32_000 + b"(){}\n"),
        ("a.rs", b"a! { " * 2000 + b"fn f(){}" + b" }" * 2000),
        ("", b"{" * 20_000 + b"\n" + b"#if A\n{\n#elif B\n{\n#else\n}\n#endif\n" * 2000),
        ("", b"#if A\n" * 16_000 + b"#else\n}\n" * 16_000),
        ("", b"enum e {\n" + b"".join(b"a%d,\n" % n for n in range(8000)) + b"};\n"),
        ("", b'R"x(\n' * 16_000),
        ("", b"#a /*\n" * 16_000),
    ],
)
def test_repetitive_code_takes_linear_time(path: str, data: bytes) -> None:
    began = time.process_time()
    outline(path, data) if path else new_c_faults(b"", data)
    assert time.process_time() - began < 2


LARGE = b"def f(x):\n    return [x, (x, {x: x})]\n\n\n" * 8_000


@pytest.mark.soak
def test_a_large_text_is_parsed_once() -> None:
    tree = parse_within(LARGE, "python", 60)
    assert tree is not None and parse_bytes(bytes(LARGE), "python") is tree
    assert parse_within(LARGE, "javascript", 60) is not tree
    assert parse_within(LARGE + b"\n", "python", 60) is not tree
    clear_cache()
    assert parse_within(LARGE, "python", 60) is not tree
