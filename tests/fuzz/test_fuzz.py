"""Near-patches and megabytes of junk cause no crash, no hang, no excessive memory and no change out of scope."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.git.files import Content
from repoagent.patch.apply_answer import LARGEST, apply_answer
from repoagent.patch.model import decode_text
from repoagent.patch.refusal import LONGEST_SHOWN, MOST_SHOWN, PatchRefused
from tests.fuzz.near import check, near_patch

pytestmark = pytest.mark.soak


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans())
def test_near_patches(data: st.DataObject, strict: bool) -> None:
    check(near_patch(lambda below: data.draw(st.integers(0, below - 1)), most=15), strict=strict)


def test_near_patches_of_a_seed() -> None:
    _many(range(600))


@pytest.mark.soak
def test_near_patches_of_many_seeds() -> None:
    _many(range(1000, 60_000))


def _many(seeds: range) -> None:
    slowest = 0.0
    for seed in seeds:
        chance = random.Random(seed)
        answer = near_patch(chance.randrange)
        started = time.process_time()
        check(answer, strict=bool(seed % 2))
        slowest = max(slowest, time.process_time() - started)
    assert slowest < 5


@given(st.binary(max_size=200))
def test_bytes_are_decoded_and_back(data: bytes) -> None:
    text = decode_text(data)
    assert text is None or text.encode() == data


JUNK = {
    "newlines": "'\\n' * SIZE",
    "one line": "'x' * SIZE",
    "back-ticks": "'`' * SIZE",
    "fences": "'```\\n' * (SIZE // 4)",
    "opened fences": "'```diff\\n' * (SIZE // 8)",
    "added lines": "'--- a/f\\n+++ b/f\\n@@\\n line 1\\n' + '+added\\n' * (SIZE // 7)",
    "deleted lines": "'--- a/f\\n+++ b/f\\n@@\\n' + '-gone\\n' * (SIZE // 6)",
    "context": "'--- a/f\\n+++ b/f\\n@@\\n' + ' line 1\\n' * (SIZE // 8)",
    "hunks": "'--- a/f\\n+++ b/f\\n' + '@@\\n line 1\\n-line 2\\n+line two\\n' * (SIZE // 30)",
    "headers": "''.join(f'--- a/f{n}\\n+++ b/f{n}\\n@@\\n-a\\n+b\\n' for n in range(SIZE // 33))",
    "blocks": "'f\\n<<<<<<< SEARCH\\nline 1\\n=======\\nline 2\\n>>>>>>> REPLACE\\n' * (SIZE // 55)",
    "open blocks": "'<<<<<<< SEARCH\\n' * (SIZE // 15)",
    "envelopes": "'*** Begin Patch\\n*** Update File: f\\n' * (SIZE // 35)",
    "elisions": "'--- a/f\\n+++ b/f\\n@@\\n' + ' ...\\n+x\\n' * (SIZE // 8)",
    "entities": "'--- a/f\\n+++ b/f\\n@@\\n-' + '&amp;' * (SIZE // 5) + '\\n+b\\n'",
    "octal": "'--- \"a/' + '\\\\303' * (SIZE // 4) + '\"\\n+++ b/f\\n@@\\n-a\\n+b\\n'",
    "quotations": "'> ' * (SIZE // 2)",
    "quoted headers": "'> --- a/f\\n' * (SIZE // 10)",
    "deep path": "'--- a/' + 'a/' * (SIZE // 2) + '\\n+++ b/f\\n@@\\n-a\\n+b\\n'",
    "zeros": "'\\0' * SIZE",
    "noise": "''.join(random.Random(1).choices('+- @`\\n<>=*abc\"\\\\/\\t', k=SIZE))",
}
MEASURED = """
import random, resource, sys, time
sys.path.insert(0, {root!r})
from repoagent.errors import Refused
from repoagent.git.files import Content; from repoagent.patch.apply_answer import apply_answer; from repoagent.patch.parse.blocks import patch_spans
SIZE = {size}
answer = {junk}
source = {{"f": Content("".join(f"line {{n}}\\n" for n in range(3000)).encode())}}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.process_time()
try:
    apply_answer(answer, source, may_create=lambda path: True)
except Refused as error:
    assert len(str(error)) < 200_000
print(time.process_time() - started, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def measured(kind: str, size: int) -> tuple[float, int]:
    """Return the CPU seconds and the MiB that `size` bytes of junk of this kind cost."""
    root = __file__.rsplit("/tests/", 1)[0]
    script = MEASURED.format(root=root, size=size, junk=JUNK[kind])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seconds, megabytes = done.stdout.split()
    return float(seconds), int(megabytes)


@pytest.mark.parametrize("kind", ["fences", "blocks", "headers", "entities", "context"])
def test_junk_takes_time_by_its_length(kind: str) -> None:
    seconds, megabytes = measured(kind, 200_000)
    assert seconds < 8 and megabytes < 100


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(JUNK))
def test_the_most_junk_that_is_read(kind: str) -> None:
    seconds, megabytes = measured(kind, LARGEST - 100)
    assert seconds < 90 and megabytes < 700


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(JUNK))
def test_fifty_megabytes(kind: str) -> None:
    seconds, megabytes = measured(kind, 50_000_000)
    assert seconds < 1 and megabytes < 120


def test_more_than_can_be_read_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(PatchRefused) as caught:
        apply_answer("x" * 50_000_000, {"f": Content(b"a\n")})
    assert time.process_time() - started < 1
    assert caught.value.reasons == {"too-large"} and "in parts" in str(caught.value)


def test_a_refusal_does_not_say_everything() -> None:
    many = "".join(f"--- a/f{n}\n+++ b/f{n}\n@@\n-a\n+b\n" for n in range(500))
    long = f"--- a/f\n+++ b/f\n@@\n-{'gone ' * 20_000}\n+b\n"
    for answer in (many, long):
        with pytest.raises(PatchRefused) as caught:
            apply_answer(answer, {"f": Content(b"a\n")})
        assert len(str(caught.value)) < (MOST_SHOWN + 1) * (LONGEST_SHOWN + 20)


def test_deep_nesting_is_no_recursion() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for answer in (
        ">" * 5000 + " --- a/f",
        "  " * 5000 + "```diff\n" * 3,
        "1. " * 5000 + "@@",
        "<" * 5000,
        "*** " * 5000,
    ):
        check(answer)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
