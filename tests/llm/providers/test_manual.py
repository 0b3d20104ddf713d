"""`manual`: prompt out, reply in."""

from __future__ import annotations

import io
import re
import stat
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm import Reply, render
from repoagent.llm.manual import ManualModel
from tests.llm.ask import ask


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def carry(source: io.StringIO, folder: Path) -> tuple[Reply, str]:
    out = io.StringIO()
    return ManualModel(folder, source, out).complete(ask(), lambda piece: None), out.getvalue()


def test_the_prompt_is_in_a_private_file(tmp_path: Path) -> None:
    _, said = carry(io.StringIO("the reply"), tmp_path)
    found = re.search(r"The prompt is in (.*)\n", said)
    assert found
    path = Path(found[1])
    assert path.parent == tmp_path
    assert path.read_text() == render(ask())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reply, said = carry(io.StringIO("one\n.\ntwo\n"), tmp_path)
    assert reply.text == "one\n.\ntwo\n"
    assert "read from standard input" in said
    assert reply.usage.estimated


def test_a_terminal_is_read_to_a_dot_and_can_be_asked_again(tmp_path: Path) -> None:
    source = Terminal("one\ntwo.\n.\nthree\n.\n")
    assert carry(source, tmp_path)[0].text == "one\ntwo.\n"
    assert carry(source, tmp_path)[0].text == "three\n"


def test_a_named_file_is_the_reply(tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_bytes(b"from a file\r\n")
    assert carry(Terminal(f"@{tmp_path / 'reply.txt'}\n"), tmp_path)[0].text == "from a file\r\n"
    assert carry(Terminal("@@ -1 +1 @@\n-a\n+b\n.\n"), tmp_path)[0].text == "@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize("source", [io.StringIO(""), Terminal(".\n"), Terminal("  \n")])
def test_no_reply(tmp_path: Path, source: io.StringIO) -> None:
    with pytest.raises(ModelError, match="no reply was given"):
        carry(source, tmp_path)
