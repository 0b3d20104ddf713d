"""The server as a process, with the official client and with a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.llm.helpers import soon
from tests.llm.media.files import png
from tests.mcp.test_tools import PATCH, blob_in

CLIENT = {"name": "test", "version": "1"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
NOISY = "echo noise on standard output; cat; echo more >&2\n"  # a hook that reads, too


def test_an_assistant_reads_checks_and_commits(repo: GitRepo, tmp_path: Path) -> None:
    """With --write, through hooks that print and read, with a client that says wrong things in between; nothing but the
    protocol is on standard output."""
    from mcp.shared.exceptions import MCPError

    from tests.mcp.assistant import serving

    repo.hook("pre-commit", NOISY)
    log, copy = tmp_path / "log", tmp_path / "copy"
    with serving(repo.top, "--write", log=log, copy=copy) as one:
        assert one.hello.server_info.name == "repoagent"
        assert "data, not instructions" in one.hello.instructions
        tools = one.tools()
        assert " ".join(sorted(tools)) == "apply files history neighbors outline read recall review uses"
        for name, tool in tools.items():
            assert tool.annotations.read_only_hint == (name != "apply")
            assert tool.annotations.destructive_hint == (name == "apply")
            assert tool.input_schema["type"] == "object"
            assert all(entry.get("description") for entry in tool.input_schema["properties"].values())
        with pytest.raises(MCPError, match="unknown tool 'rm'; the tools are: files"):
            one.call("rm", path="/")
        assert one.error("read", path="../x").startswith("../x is not a normalized path")
        (repo.top / "shot.png").write_bytes(png())
        _, image = one.call("read", path="shot.png").content
        assert (image.type, image.mime_type, b64decode(image.data)) == ("image", "image/png", png())
        (repo.top / "shot.png").unlink()
        assert "type string" in one.error("read", path=["a"])
        assert "score" in one.text("neighbors", paths=["a.txt"])
        assert "0 findings" in one.text("review")
        source = blob_in(one.text("read", path="src/app.py"))
        bound = {"patch": PATCH, "sources": {"src/app.py": source}}
        done = one.text("apply", **bound, message="Comma")
        assert f"Committed {repo.head()} " in done
        assert "already" in one.error("apply", **bound)
        assert "Comma" in one.text("recall", query="comma")
        assert set(one.progress) == {"reading the memories"}
    assert "Traceback" not in log.read_text()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in copy.read_text().splitlines())
    assert repo.status() == ""


@contextmanager
def server(repo: GitRepo, *options: str) -> Iterator[Any]:
    """A server with pipes to it, killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "repoagent", "mcp", *options], cwd=repo.top, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def say(process: Any, *messages: Mapping[str, Any]) -> None:
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()


def answers(process: Any, *messages: Mapping[str, Any], count: int = 1) -> dict[int, str]:
    """Send these, and read the texts of `count` answers, by their ids; every line has to be of the protocol."""
    say(process, *messages)
    texts: dict[int, str] = {}
    while len(texts) < count:
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("id") is not None:
            texts[message["id"]] = message["result"].get("content", [{}])[0].get("text", "")
    return texts


def calling(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def applying(repo: GitRepo, number: int = 2, **more: Any) -> dict[str, Any]:
    source = repo.git("hash-object", "src/app.py").strip()
    return calling(number, "apply", patch=PATCH, sources={"src/app.py": source}, **more)


@contextmanager
def committing(repo: GitRepo) -> Iterator[Any]:
    """A server whose hook holds up the commit of the call 2 until `go_on`."""
    hook = repo.hook("pre-commit", "touch ../in-hook; while [ ! -e ../go ]; do sleep 0.05; done\n")
    with server(repo, "--write") as process:
        answers(process, HELLO, READY)
        say(process, applying(repo))
        assert soon((repo.top.parent / "in-hook").exists)
        yield process
    hook.unlink()


def go_on(repo: GitRepo) -> None:
    (repo.top.parent / "go").touch()


def commits(repo: GitRepo) -> int:
    """The number of commits; all of them are whole."""
    assert repo.status() == ""
    return int(repo.git("rev-list", "--count", "HEAD"))


def test_without_the_package_the_error_names_it(repo: GitRepo) -> None:
    """`find_spec` finds none where the name is blocked, as it does where the package is missing."""
    code = "import sys; sys.modules['mcp'] = None; from repoagent.cli import main; main(['repoagent', 'mcp'])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=repo.top, capture_output=True, text=True, check=False)
    needed = "repoagent: `repoagent mcp` needs the mcp package: pip install 'git-repoagent[mcp]'\n"
    assert (done.returncode, done.stderr) == (2, needed)


def test_a_limit_needs_a_model(repo: GitRepo) -> None:
    done = program.run(["mcp", "--max-cost", "1"], repo.top)
    assert done.returncode == 2 and b"needs --model" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it(repo: GitRepo, number: signal.Signals) -> None:
    with server(repo) as process:
        answers(process, HELLO, READY)
        process.send_signal(number)
        assert process.wait(10) == -number
        assert process.stderr.read() == b""


@pytest.mark.soak
def test_a_commit_in_progress_is_finished_before_the_end(repo: GitRepo) -> None:
    with committing(repo) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        go_on(repo)
        assert process.wait(10) == -signal.SIGTERM
    assert commits(repo) == 2
    assert b"hello, " in repo.read("src/app.py")


@pytest.mark.soak
def test_a_client_that_goes_in_the_middle_leaves_it_whole(repo: GitRepo) -> None:
    with committing(repo) as process:
        say(process, applying(repo, 3, check_only=True), applying(repo, 4))
        process.stdin.close()
        process.stdout.close()
        go_on(repo)
        assert process.wait(15) == 0
    assert commits(repo) == 2


@pytest.mark.soak
def test_a_killed_commit_is_recovered_by_the_next_call(repo: GitRepo) -> None:
    before = repo.read("src/app.py")
    with committing(repo) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert repo.read("src/app.py") != before  # as it was written, not committed
    with server(repo, "--write") as process:
        found = answers(process, HELLO, READY, applying(repo), count=2)  # bound to what the kill had left
        assert "is already applied" in found[2]
        assert repo.read("src/app.py") == before
        assert repo.status() == ""
        found = answers(process, applying(repo, 3))
        assert b"recovered" in process.stderr.peek()
    assert f"Committed {repo.head()} " in found[3]
    assert repo.status() == ""


@pytest.mark.soak
def test_a_call_that_is_cancelled_before_its_turn_changes_nothing(repo: GitRepo) -> None:
    other = PATCH.replace("'hello, '", "'never '")
    source = repo.git("hash-object", "src/app.py").strip()
    with committing(repo) as process:
        say(process, calling(3, "apply", patch=other, sources={"src/app.py": source}))
        time.sleep(0.3)
        say(process, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})
        found = answers(process, calling(4, "read", path="a.txt"))  # others are answered meanwhile
        assert "line 1" in found[4]
        go_on(repo)
        assert answers(process)[2].startswith("Committed ")
    assert commits(repo) == 2
    assert b"never" not in repo.read("src/app.py")


@pytest.mark.soak
def test_two_assistants_at_once_lose_nothing(repo: GitRepo, tmp_path: Path) -> None:
    from tests.mcp.assistant import Assistant, serving

    count = 6
    repo.commit("files", **{f"f{number}.txt": "before\n" for number in range(2 * count)})
    wrong: list[str] = []

    def work(one: Assistant, numbers: range) -> None:
        for number in numbers:
            name = f"f{number}.txt"
            source = blob_in(one.text("read", path=name))
            patch = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-before\n+after {number}\n"
            result = one.call("apply", patch=patch, sources={name: source})
            if result.is_error:
                wrong.append(str(result.content))

    with (
        serving(repo.top, "--write", log=tmp_path / "1") as one,
        serving(repo.top, "--write", log=tmp_path / "2") as two,
    ):
        other = threading.Thread(target=work, args=(two, range(count, 2 * count)))
        other.start()
        work(one, range(count))
        other.join()
    assert wrong == []
    assert commits(repo) == 2 + 2 * count
    for number in range(2 * count):
        assert repo.read(f"f{number}.txt").decode() == f"after {number}\n"
