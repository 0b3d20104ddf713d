"""`manual`: prompt out, reply in; from pipes, and on a real terminal (a pty)."""

from __future__ import annotations

import io
import json
import re
import stat
import time
from pathlib import Path

import pyperclip
import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, render_request
from repoagent.llm.providers import manual
from repoagent.llm.providers.manual import ManualModel
from tests.cli.screens import Screen, python
from tests.llm.conftest import Put
from tests.llm.helpers import ask, call

PROMPT = render_request(ask())


def carry(source: str, folder: Path, reply: Path | None = None) -> tuple[Reply, str]:
    out = io.StringIO()
    return call(ManualModel(folder, reply, io.StringIO(source), out)), out.getvalue()


def test_the_prompt_is_in_a_private_file_and_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reply, said = carry("one\n.\ntwo\n", tmp_path)
    path = Path(re.findall(r"The prompt is in (.*)\n", said)[0])
    assert "read from standard input" in said
    assert (path.parent, path.read_text()) == (tmp_path, PROMPT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (reply.text, reply.usage.estimated) == ("one\n.\ntwo\n", True)


NONE = "no reply: give the prompt"


@pytest.mark.parametrize(
    ("piped", "file", "words"),
    [
        *((piped, "", NONE) for piped in ("", "  \n", PROMPT, PROMPT.rstrip() + "\n\n")),
        ("", "none.txt", r"cannot read the reply in .*none\.txt: No such file"),
        ("", "prompt.txt", r"prompt\.txt contains only the prompt"),
    ],
)
def test_no_reply(tmp_path: Path, piped: str, file: str, words: str) -> None:
    (tmp_path / "prompt.txt").write_text(PROMPT)
    with pytest.raises(ModelError, match=words):
        carry(piped, tmp_path, tmp_path / file if file else None)


def test_a_reply_from_a_file_or_after_a_copied_prompt(tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_bytes(b"\xef\xbb\xbffrom a file\r\n\xff")
    reply, said = carry("not read", tmp_path / "prompts", tmp_path / "reply.txt")
    assert (reply.text, said) == ("from a file\r\n\ufffd", "")
    assert not (tmp_path / "prompts").exists()
    assert carry("piped\n", tmp_path, Path("-"))[0].text == "piped\n"
    assert carry(PROMPT + "\nthe reply\n", tmp_path)[0].text == "the reply\n"


def test_a_second_prompt_needs_another_reply(tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_text("the first")
    model = ManualModel(tmp_path, tmp_path / "reply.txt", io.StringIO("unasked"), io.StringIO())
    assert call(model).text == "the first"
    with pytest.raises(ModelError, match=r"reply\.txt led to another prompt: give .*prompt-"):
        call(model)


# On a terminal.

CARRY = """
import json, sys
from pathlib import Path
from repoagent.errors import ModelError
from repoagent.llm.providers.manual import ManualModel
from tests.llm.helpers import ask
model = ManualModel(Path("prompts"), Path(sys.argv[1]) if sys.argv[1:] else None)
while True:
    try:
        reply = model.complete(ask(), lambda piece: None)
        Path("got.json").write_text(json.dumps(reply.text))
        print("got it")
        print("next:", json.dumps(input()))
    except ModelError as error:
        print("error:", error)
"""


def carrying(folder: Path, *arguments: str, display: str = "") -> Screen:
    """A terminal where the user is asked for one reply after the other; no program is on PATH but those in `bin`."""
    env = dict.fromkeys(("WAYLAND_DISPLAY", "TMUX", "WSL_DISTRO_NAME"), "")
    env["PROMPT_TOOLKIT_NO_CPR"] = "1"  # it waits a second for the position of the cursor
    env |= {"DISPLAY": display, "PATH": str(folder / "bin"), "PYTHONPATH": str(Path(__file__).parents[3])}
    return Screen(python(CARRY, *arguments), folder, env=env, width=200)


def got(screen: Screen, folder: Path) -> str:
    """The reply, once the program asks its next question, in line mode."""
    screen.expect("got it")
    screen.send("y\n")
    assert '"y"' in screen.expect("next: ") + screen.expect('"y"')
    text = json.loads((folder / "got.json").read_text())
    assert isinstance(text, str)
    return text


def refuse(screen: Screen, keys: str) -> None:
    screen.send(keys)
    screen.expect("\x1b[?2004l")  # the end of this question
    screen.expect("That is not a reply to the prompt")


def test_replies_are_pasted_until_an_interrupt(tmp_path: Path) -> None:
    """After the one in the file. A blank line and the prompt are no reply; a line may be longer than a terminal in line
    mode takes."""
    (tmp_path / "reply.txt").write_text("the first")
    long = "x" * 20_000
    with carrying(tmp_path, "reply.txt") as screen:
        assert got(screen, tmp_path) == "the first"
        screen.expect("paste its reply here")
        refuse(screen, "  \r")
        refuse(screen, "\x1b[200~" + PROMPT.replace("\n", "\r") + "\x1b[201~\r")
        screen.send("see caf\x7fé \x1b[200~here:\r\ta\r\r")
        for start in range(0, len(long), 1000):
            screen.send(long[start : start + 1000])
        screen.send("\x1b[201~\r")
        assert got(screen, tmp_path) == f"see caé here:\n\ta\n\n{long}\n"
        screen.answer("paste its reply here", "\x04")
        screen.expect("error: no reply: give the prompt")
        screen.expect("\x1b[?2004h")
        screen.answer("paste its reply here", "half\x03")
        screen.expect("\x1b[?2004l")
        screen.expect("KeyboardInterrupt")


def test_the_clipboard_both_ways(tmp_path: Path) -> None:
    clip, xclip = tmp_path / "clip", tmp_path / "bin/xclip"
    xclip.parent.mkdir()
    xclip.write_text(f'#!/bin/sh\ncase "$*" in *-o) exec /bin/cat {clip};; esac\nexec /bin/cat > {clip}\n')
    xclip.chmod(0o755)
    with carrying(tmp_path, display=":0") as screen:
        screen.expect("press Enter here")
        assert clip.read_text() == PROMPT
        refuse(screen, "\r")  # the prompt is no reply
        clip.write_bytes(b" \n")
        refuse(screen, "\r")
        clip.unlink()
        refuse(screen, "\r")
        clip.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
        screen.send("\r")
        assert got(screen, tmp_path) == "one\ntwo\n"


def test_a_clipboard_that_hangs(tmp_path: Path, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put(WAYLAND_DISPLAY="", DISPLAY=":0", PATH=str(tmp_path))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(pyperclip, "copy", pyperclip.lazy_load_stub_copy)  # it looks for a program once
    monkeypatch.setattr(pyperclip, "paste", pyperclip.lazy_load_stub_paste)
    monkeypatch.setattr(manual, "TIMEOUT", 0.2)
    (tmp_path / "xclip").touch(0o755)
    (tmp_path / "xclip").write_text("#!/bin/sh\nexec /bin/sleep 2\n")
    start = time.monotonic()
    assert manual.clipboard("text") is None
    assert manual.clipboard() is None
    assert time.monotonic() - start < 1.5
