"""Repositories for tasks: programs of a few dozen files in several languages, with a history of a few commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Commit = tuple[str, dict[str, str | bytes]]

UNITS = (
    ("length", "metre", "foot", 3.28084),
    ("mass", "kilogram", "pound", 2.204623),
    ("volume", "litre", "gallon", 0.264172),
    ("speed", "knot", "mph", 1.150779),
    ("energy", "joule", "calorie", 0.239006),
    ("pressure", "bar", "psi", 14.50377),
    ("area", "hectare", "acre", 2.471054),
    ("power", "kilowatt", "horsepower", 1.341022),
)


def python() -> Iterator[Commit]:
    """A unit converter: a package, a command line, and tests that need only Python."""
    files: dict[str, str | bytes] = {
        "README.md": "# convert\n\nConverts units.\n\n## Options\n\n- `--list` prints the units.\n- `--digits N` rounds.\n",
        "Makefile": "check:\n\tpython3 -S tests/run.py\n",
        "convert/__init__.py": '"""Converts units."""\n',
        "convert/table.py": _TABLE,
        "convert/cli.py": _CLI,
        "convert/rounding.py": _ROUNDING,
        "tests/run.py": _RUN,
        "tests/test_rounding.py": _TEST_ROUNDING,
        "tests/test_cli.py": _TEST_CLI,
    }
    for name, one, other, factor in UNITS:
        files[f"convert/units/{name}.py"] = (
            f'"""{name.capitalize()}."""\n\nfrom convert.table import register\n\n'
            f'register("{one}", "{other}", {factor})\n\n\ndef {one}_to_{other}(value):\n'
            f'    """{one.capitalize()}s as {other}s."""\n    return value * {factor}\n'
        )
        files[f"docs/{name}.md"] = f"# {name.capitalize()}\n\nOne {one} is {factor} {other}s.\n"
    files["convert/units/__init__.py"] = "".join(
        f"from convert.units import {name}  # noqa: F401\n" for name, *_ in UNITS
    )
    yield "Convert units", files
    yield "Say how to test", {"CONTRIBUTING.md": "# Contributing\n\nRun `make check` before you commit.\n"}


_TABLE = '''"""The table of all units."""

UNITS = {}


def register(one, other, factor):
    """Know how many `other` one `one` is."""
    UNITS[one, other] = factor
    UNITS[other, one] = 1 / factor


def look_up(one, other):
    """The factor from `one` to `other`. Raises KeyError."""
    return UNITS[one, other]
'''
_ROUNDING = '''"""Rounding."""


def rounded(value, digits):
    """`value` with so many digits after the point, as text."""
    if digits == 0:
        return str(value)
    return f"{value:.{digits}f}"
'''
_CLI = '''"""The command line."""

import sys

import convert.units  # noqa: F401
from convert.rounding import rounded
from convert.table import UNITS, look_up


def main(arguments):
    """Returns the exit code."""
    digits = 2
    words = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--list":
            for one, other in sorted(UNITS):
                print(one, other)
            return 0
        elif word == "--digits":
            digits = int(rest.pop(0))
        else:
            words.append(word)
    value, one, other = words
    print(rounded(float(value) * look_up(one, other), digits))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''
_RUN = '''"""Runs all functions called test_... of the files beside this one."""

import importlib
import pathlib
import sys
import traceback

here = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(here.parent), str(here)]
failed = 0
for file in sorted(here.glob("test_*.py")):
    module = importlib.import_module(file.stem)
    for name in sorted(vars(module)):
        if name.startswith("test_"):
            try:
                getattr(module, name)()
            except Exception:
                failed += 1
                print(f"FAILED {file.relative_to(here.parent)}::{name}")
                traceback.print_exc(file=sys.stdout)
print("ok" if not failed else f"{failed} failed")
sys.exit(bool(failed))
'''
_TEST_ROUNDING = """from convert.rounding import rounded


def test_two_digits():
    assert rounded(3.14159, 2) == "3.14"


def test_no_digits():
    assert rounded(2.6, 0) == "3", rounded(2.6, 0)
"""
_TEST_CLI = """import io
from contextlib import redirect_stdout

from convert.cli import main


def said(*arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(arguments) == 0
    return out.getvalue()


def test_feet():
    assert said("1", "metre", "foot") == "3.28\\n"
"""


def c() -> Iterator[Commit]:
    """A program in C with a Makefile."""
    files: dict[str, str | bytes] = {
        "Makefile": "all:\n\tcc -o tool src/*.c\n",
        ".gitignore": "/tool\n*.o\n",
        "src/tool.h": "#ifndef TOOL_H\n#define TOOL_H\n\nint add(int a, int b);\nint parse_number(const char *s);\n\n#endif\n",
        "src/main.c": (
            '#include <stdio.h>\n#include "tool.h"\n\nint main(int argc, char **argv)\n{\n'
            '\tprintf("%d\\n", add(parse_number(argv[1]), parse_number(argv[2])));\n\treturn argc != 3;\n}\n'
        ),
        "src/add.c": '#include "tool.h"\n\nint add(int a, int b)\n{\n\treturn a + b;\n}\n',
        "src/parse.c": (
            '#include <stdlib.h>\n#include "tool.h"\n\nint parse_number(const char *s)\n{\n\treturn atoi(s);\n}\n'
        ),
        "docs/manual.md": "# tool\r\n\r\nAdds two numbers.\r\n\r\n## Exit\r\n\r\n0 when it could.\r\n",
        "docs/auteurs.txt": "Les auteurs de ce programme:\nRené Müller\nFrançoise Géraud\nJosé Peña\n".encode(
            "latin-1"
        ),
        "docs/last.txt": "first\nsecond\nthe last line has no end",
    }
    files |= {f"examples/{n:02}.txt": f"{n} + {n} = {n + n}\n" for n in range(1, 13)}
    yield "A tool that adds", files


KINDS: dict[str, Callable[[], Iterator[Commit]]] = {
    "python": python,
    "c": c,
}
