"""Programs within limits, with real processes."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from repoagent.errors import Refused
from repoagent.git import process
from repoagent.git.process import Program, start_program
from tests.llm.helpers import gone, soon


def start(command: str, folder: Path, seconds: float = 20) -> AbstractContextManager[Program]:
    return start_program(
        command, Refused, cwd=folder, env=os.environ, stdin=b"x" * 100_000, stderr=PIPE, seconds=seconds, most=300_000
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("echo one; sleep 60 & echo $! > pid; exec >&- 2>&-; wait", "late"),
        ("setsid -f sh -c 'while sleep 0.01; do echo; done'; sleep 60 & echo $! > pid; wait", "late"),
        ("sleep 60 & echo $! > pid; yes", "large"),
        ("sleep 60 & echo $! > pid; yes >&2", "large"),
        ("sleep 60 & echo $! > pid; echo one; head -c 200000 /dev/zero >&2; cat | wc -c", ""),
    ],
)
def test_no_process_of_its_group_outlives_it(tmp_path: Path, command: str, ended: str) -> None:
    """Whether it ends, or reaches a limit; other processes neither hold it up nor lose its output."""
    began = time.monotonic()
    with start(command, tmp_path, 0.5 if ended == "late" else 20) as program:
        output = b"".join(program.output(silence=0.2))
        assert program.process.wait() == (0 if not ended else -9)
    assert program.ended == ended and time.monotonic() - began < 5
    assert max(len(output), len(program.errors)) <= 300_000
    assert ended or (output, len(program.errors)) == (b"one\n100000\n", 200_000)
    assert soon(lambda: gone(int((tmp_path / "pid").read_text())))


def test_background_processes_are_heard_until_they_are_silent(tmp_path: Path) -> None:
    with start("(for n in 1 2 3; do sleep 0.3; echo $n; done; sleep 60) &", tmp_path) as program:
        assert b"".join(program.output(silence=1)) == b"1\n2\n3\n"
    with start("sleep 1 && echo late & echo early", tmp_path) as program:
        assert b"".join(program.output(silence=0)) == b"early\n"


def test_an_interrupt_at_the_start_leaves_no_pipe_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open pipe is a warning, which is an error in tests."""

    @contextmanager
    def interrupted() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "uninterrupted", interrupted)
    with pytest.raises(KeyboardInterrupt), start("sleep 60", tmp_path):
        pass
    gc.collect()


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    for command, folder, why in (("a\0b", ".", "null byte"), ("true", "none", "^No such file")):
        with pytest.raises(Refused, match=why), start(command, tmp_path / folder):
            pass
