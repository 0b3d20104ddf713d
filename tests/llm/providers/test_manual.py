"""`manual`: prompt out, reply in; from pipes, and on a real terminal (a pty)."""

from __future__ import annotations

import io
import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, render
from repoagent.llm.providers.manual import ManualModel
from tests.cli.screens import Screen, python
from tests.conftest import GitRepo
from tests.llm.ask import ask

HERE = Path(__file__).parents[3]


def carry(source: str, folder: Path, reply: Path | None = None) -> tuple[Reply, str]:
    out = io.StringIO()
    model = ManualModel(folder, reply, io.StringIO(source), out)
    return model.complete(ask(), lambda piece: None), out.getvalue()


def test_the_prompt_is_in_a_private_file(tmp_path: Path) -> None:
    _, said = carry("the reply", tmp_path)
    found = re.search(r"The prompt is in (.*)\n", said)
    assert found
    path = Path(found[1])
    assert path.parent == tmp_path
    assert path.read_text() == render(ask())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reply, said = carry("one\n.\ntwo\n", tmp_path)
    assert reply.text == "one\n.\ntwo\n"
    assert "read from standard input" in said
    assert reply.usage.estimated


@pytest.mark.parametrize("source", ["", "  \n", render(ask()), render(ask()).rstrip() + "\n\n"])
def test_no_reply(tmp_path: Path, source: str) -> None:
    with pytest.raises(ModelError, match="no reply: give the prompt"):
        carry(source, tmp_path)


def test_a_copied_prompt_is_removed(tmp_path: Path) -> None:
    assert carry(render(ask()) + "\nthe reply\n", tmp_path)[0].text == "the reply\n"


def test_the_start_of_the_prompt_is_not_a_reply(tmp_path: Path) -> None:
    request = ask(
        system="You edit files of a repository, as the person who works on it asks, and nothing else."
    )
    prompt = render(request).replace("\n", "\r\n")
    model = ManualModel(tmp_path, None, io.StringIO(prompt[: len(prompt) // 2 + 60]), io.StringIO())
    with pytest.raises(ModelError, match="no reply: give the prompt"):
        model.complete(request, lambda piece: None)


def test_a_reply_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_bytes(b"\xef\xbb\xbffrom a file\r\n\xff")
    reply, said = carry("not read", tmp_path / "prompts", tmp_path / "reply.txt")
    assert reply.text == "from a file\r\n\ufffd"
    assert said == ""
    assert not (tmp_path / "prompts").exists()
    assert carry("piped\n", tmp_path, Path("-"))[0].text == "piped\n"


def test_a_file_without_a_reply(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read the reply in .*none\.txt: No such file"):
        carry("", tmp_path, tmp_path / "none.txt")
    (tmp_path / "prompt.txt").write_text(render(ask()))
    with pytest.raises(ModelError, match=r"prompt\.txt contains only the prompt"):
        carry("", tmp_path, tmp_path / "prompt.txt")


def test_a_second_prompt_needs_another_reply(tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_text("the first")
    model = ManualModel(tmp_path, tmp_path / "reply.txt", io.StringIO("unasked"), io.StringIO())
    heard: list[str] = []
    assert model.complete(ask(), heard.append).text == "the first"
    assert heard == ["the first"]
    with pytest.raises(ModelError, match=r"reply\.txt led to another prompt: give .*prompt-"):
        model.complete(ask("again"), heard.append)


# On a terminal.

CARRY = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from repoagent.errors import ModelError
from repoagent.llm.providers.manual import ManualModel
from tests.llm.ask import ask
model = ManualModel(Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
try:
    for number in range(2 if sys.argv[3:] else 1):
        reply = model.complete(ask(), lambda piece: None)
    Path("got.json").write_text(json.dumps(reply.text))
    print("got it")
    print("next:", json.dumps(input()))
except ModelError as error:
    print("error:", error)
"""
Open = Callable[..., Screen]


@pytest.fixture
def terminal(tmp_path: Path) -> Open:
    """Opens a terminal in which the user is asked for a reply; `clip` is the clipboard, a file in the folder."""

    def open_it(*arguments: str, clip: bool = False, env: dict[str, str] | None = None) -> Screen:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        desktop = {
            "DISPLAY": "",
            "WAYLAND_DISPLAY": "",
            "TMUX": "",
            "WSL_DISTRO_NAME": "",
            "PATH": str(folder),
        }
        if clip:
            path = folder / "xclip"
            store = tmp_path / "clip"
            path.write_text(
                f'#!/bin/sh\ncase "$*" in *-o) exec /bin/cat {store};; esac\nexec /bin/cat > {store}\n'
            )
            path.chmod(0o755)
            desktop["DISPLAY"] = ":0"
        command = python(CARRY, str(HERE), str(tmp_path / "prompts"), *arguments)
        return Screen(command, tmp_path, env={**desktop, **(env or {})}, width=200)

    return open_it


def got(screen: Screen, folder: Path) -> str:
    """The reply, once the program asks its next question, in line mode."""
    screen.expect("got it")
    screen.send("y\n")
    assert '"y"' in screen.expect("next: ") + screen.expect('"y"')
    assert screen.end() == 0
    text = json.loads((folder / "got.json").read_text())
    assert isinstance(text, str)
    return text


def test_a_reply_is_pasted(terminal: Open, tmp_path: Path) -> None:
    """A blank line and the prompt are no reply; a line may be longer than a terminal in line mode takes."""
    long = "x" * 20_000
    with terminal() as screen:
        screen.expect("paste its reply here")
        for keys in ("  \r", "\x1b[200~" + render(ask()).replace("\n", "\r") + "\x1b[201~\r"):
            screen.send(keys)
            screen.expect("\x1b[?2004l")  # the end of this question
            screen.expect("That is not a reply to the prompt")
        screen.send("see caf\x7fé \x1b[200~here:\r\ta\r\r")
        for start in range(0, len(long), 1000):
            screen.send(long[start : start + 1000])
        screen.send("\x1b[201~\r")
        assert got(screen, tmp_path) == f"see caé here:\n\ta\n\n{long}\n"


def test_the_clipboard_both_ways(terminal: Open, tmp_path: Path) -> None:
    with terminal(clip=True) as screen:
        screen.expect("press Enter here")
        assert (tmp_path / "clip").read_text() == render(ask())
        for content in (None, b" \n", b""):  # the prompt; no text; the clipboard is gone
            if content is not None:
                (tmp_path / "clip").write_bytes(content)
            if content == b"":
                (tmp_path / "clip").unlink()
            screen.send("\r")
            screen.expect("\x1b[?2004l")  # the end of this question
            screen.expect("That is not a reply to the prompt")
        (tmp_path / "clip").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
        screen.send("\r")
        assert got(screen, tmp_path) == "one\ntwo\n"


def test_nothing_typed_is_an_error(terminal: Open) -> None:
    with terminal() as screen:
        screen.expect("paste its reply here")
        screen.send("\x04")
        screen.expect("error: no reply: give the prompt")
        assert screen.end() == 0


def test_an_interrupt_restores_the_terminal(terminal: Open, tmp_path: Path) -> None:
    with terminal() as screen:
        screen.expect("\x1b[?2004h")
        screen.expect("paste its reply here")
        screen.send("half\x03")
        screen.expect("\x1b[?2004l")
        screen.expect("KeyboardInterrupt")


def test_the_terminal_is_used_after_the_reply_file(terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_text("the first")
    with terminal("reply.txt") as screen:
        screen.expect("paste its reply here")
        screen.send("the second\r")
        assert got(screen, tmp_path) == "the second\n"


def test_an_edit_by_hand(repo: GitRepo) -> None:
    """The whole program: the reply is pasted, and the question about the change is answered in line mode."""
    repo.write("a.txt", "one\n")
    repo.git("add", "a.txt")
    repo.git("commit", "-qm", "Add a text")
    command = [sys.executable, "-m", "repoagent", "edit", "a.txt", "count on", "--model", "manual"]
    with Screen(command, repo.top, env={"DISPLAY": "", "WAYLAND_DISPLAY": ""}, width=200) as screen:
        screen.expect("paste its reply here")
        diff = "```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n```\n".replace("\n", "\r")
        screen.send(f"\x1b[200~{diff}\x1b[201~\r")
        screen.expect("Apply this change")
        screen.send("y\r")
        assert screen.end() == 0
    assert (repo.top / "a.txt").read_text() == "two\n"
