"""Coverage-guided fuzzing of the parser and the applier, started by hand after `pip install atheris`:

python -m tests.fuzz.fuzz_answers near|raw|text -max_total_time=600 [CORPUS]

`near`: near-patches of a grammar; `raw`: any text as an answer; `text`: any bytes, decoded and encoded again.
"""

from __future__ import annotations

import sys
import time

import atheris

with atheris.instrument_imports(include=["repoagent.patch"]):
    from repoagent.git.files import Content
    from repoagent.patch.apply_answer import apply_answer
    from repoagent.patch.model import decode_text
    from tests.fuzz import near

SLOW = 5.0  # seconds


def near_patches(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    _timed(near.near_patch(lambda n: provider.ConsumeIntInRange(0, n - 1)), strict=provider.ConsumeBool())


def raw(data: bytes) -> None:
    _timed(data.decode("utf-8", "surrogateescape"), strict=bool(len(data) % 2))


def text(data: bytes) -> None:
    decoded = decode_text(data)
    assert decoded is None or decoded.encode() == data
    if decoded is not None and decoded.lines:
        sources = {"f": Content(data)}
        try:
            made = apply_answer(f"--- a/f\n+++ b/f\n@@\n-{decoded.lines[0]}\n+changed\n", sources).changes
        except near.PatchRefused:
            return
        assert len(made) <= 1


def _timed(answer: str, *, strict: bool) -> None:
    started = time.monotonic()
    near.check(answer, strict=strict)
    assert time.monotonic() - started < SLOW, f"slow: {answer[:2000]!r}"


def main() -> None:
    target = {"near": near_patches, "raw": raw, "text": text}[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
