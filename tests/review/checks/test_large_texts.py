"""Texts that are generated, or written to slow down a review. No rule takes long or fails."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from repoagent.review.checks import module_names
from repoagent.review.checks.module_names import Use
from tests.conftest import GitRepo
from tests.review.checks.test_static import findings

NAMES = {f"gone{number}" for number in range(50)}
DEEP = b"import m\nif m.gone0: pass\n" + b"elif m.gone0: pass\n" * 2_500


def test_long_chains_of_elif_and_of_attributes_are_parsed() -> None:
    names = module_names.python_names(b"a = 1\n" + DEEP + b"else: b = 1\n")
    assert {"a", "b", "m"} == names.keys()
    assert len(module_names.python_uses("a.py", DEEP, "m.py", NAMES)) == 2_501
    chain = b"import m\nx = m.gone0" + b".b" * 900 + b"\n"
    assert module_names.python_uses("a.py", chain, "m.py", NAMES) == [Use("gone0", 2, imported=False)]


@pytest.mark.parametrize(
    "text",
    [
        b"\n" * 200_000 + b"x",
        b"import {\n" * 100_000,
        b"export {\n" * 100_000,
        b"exports = {" * 100_000,
        b"exports.a = 1\n" * 100_000,
        b"".join(b"const a%d = require('./m')\n" % number for number in range(50_000)),
        b"const a = require('./m')\n" + b"a.gone0 " * 50_000,
    ],
)
@pytest.mark.parametrize(
    "read",
    [module_names.script_names, lambda text: module_names.script_uses("a.js", text, "m.js", NAMES)],
    ids=["names", "uses"],
)
def test_a_large_script_is_read_in_time(read: Callable[[bytes], object], text: bytes) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 5


def test_a_line_of_generated_code_is_not_a_debugging_call(repo: GitRepo) -> None:
    began = time.process_time()
    line = "x = '" + "print(console.log(" * 40_000 + "'\n"
    assert findings(repo, {"a.py": "x = 1\n", "b.js": "x = 1\n"}, {"a.py": line, "b.js": line}) == []
    assert time.process_time() - began < 10
