"""Thinking is sent back with its signature, as long as no earlier turn has changed; native tools change no run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import LimitReached, NothingDone
from repoagent.llm.conversation import read_conversation
from repoagent.llm.usage import Limits
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET
from tests.llm.providers.messages_server import Received, Script, Server, messages_server
from tests.llm.providers.thinking_server import Thinker, unmarked
from tests.tasks.scenarios.stage import MODEL, Reply, Stage, change, finish

REPLIES: tuple[Reply, ...] = (
    '<read path="a.txt"/>', change("a.txt", "line 3", "line three"), finish("Change a line")
)  # fmt: skip


tags = pytest.mark.parametrize("thinking", ["tags"], indirect=True)


@pytest.fixture
def thinking(
    repo: GitRepo,
    server_with: Callable[[Script], Server],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> tuple[Stage, Thinker]:
    """A stage whose model thinks before each reply, and uses native tools, or tags if the test says so."""
    monkeypatch.setenv("REPOAGENT_PROTOCOL", getattr(request, "param", "tools"))
    stage = Stage(repo, replies=REPLIES)
    thinker = Thinker(lambda received: str(stage.script(received)))
    stage.server = server_with(thinker)
    return stage, thinker


def blocks_of(body: Mapping[str, Any], kind: str) -> list[Any]:
    return [block for message in body["messages"] for block in message["content"] if block["type"] == kind]


def thoughts(stage: Stage) -> list[list[str]]:
    """The thinking in each request."""
    sent = [blocks_of(received.body, "thinking") for received in stage.requests]
    return [[block["thinking"] for block in blocks] for blocks in sent]


@pytest.mark.parametrize("thinking", ["tags", "tools"], indirect=True)
def test_thinking_is_sent_back_with_each_reply(thinking: tuple[Stage, Thinker]) -> None:
    """After a kill too: another process continues the requests from disk."""
    stage, thinker = thinking
    stage.name = "it"
    running: list[program.Running] = []
    stage.at[3] = lambda: running[0].send_signal(signal.SIGKILL)
    words = ["run", "--model", MODEL, "--mode", "auto-edit"]
    command = [*words, "--conversation", "it", "Write line 3 in letters."]
    running.append(program.start(command, stage.repo.top, load=("anthropic",)))
    running[0].communicate()
    assert running[0].returncode == -signal.SIGKILL
    stage.at.clear()
    done = program.run([*words, "--resume", "it"], stage.repo.top, load=("anthropic",))
    assert (done.returncode, thinker.rejected) == (0, []), done.stderr
    both = ["thought 1", "thought 2"]
    assert thoughts(stage) == [[], ["thought 1"], both, both]
    sent = [received.body for received in stage.requests]
    assert sent[2]["messages"] == sent[3]["messages"]
    plain = [unmarked([body["system"], body.get("tools"), *body["messages"]]) for body in sent]
    assert all(
        after[: len(before)] == before for before, after in pairwise(plain)
    )  # each adds to the previous one
    assert "thought 1" not in stage.file("conversations", "it.md").read_text()
    calls = [block["name"] for block in blocks_of(sent[-1], "tool_use")]
    assert calls == (["read"] if os.environ["REPOAGENT_PROTOCOL"] == "tools" else [])
    assert len(blocks_of(sent[-1], "tool_result")) == len(calls)
    kept = [*stage.file("sent").glob("*.json")]
    assert len(kept) == 3 and all(path.stat().st_mode & 0o077 == 0 for path in kept)


def stopped_after(stage: Stage, calls: int) -> None:
    with pytest.raises(LimitReached):
        stage.go(prompt="Write line 3 in letters.", limits=Limits(turns=calls))


@tags
def test_turns_that_the_user_edited_are_not_signed(thinking: tuple[Stage, Thinker]) -> None:
    """Neither the edited turn nor later thinking is sent back; thinking after the resume is."""
    stage, thinker = thinking
    stopped_after(stage, 2)
    file = stage.file("conversations", f"{stage.name}.md")
    text = file.read_text()
    changed = text.replace('<read path="a.txt"/>', 'I look at it.\n<read path="a.txt"/>')
    assert changed != text
    file.write_text(changed)
    stage.go(*REPLIES[:2], '<think>not yet</think>\n<search pattern="line"/>', REPLIES[2])
    assert thoughts(stage) == [[], ["thought 1"], [], ["thought 3"]]
    assert thinker.rejected == []


@pytest.mark.parametrize("how", ["model", "gone", "account"])
def test_thinking_that_cannot_be_sent_back_is_text(thinking: tuple[Stage, Thinker], how: str) -> None:
    """It is of another model, its file is gone, or it is refused (say a signature of another account), at the cost of
    one request."""
    stage, thinker = thinking
    stopped_after(stage, 1)
    if how == "gone":
        for path in stage.file("sent").glob("*.json"):
            path.unlink()
    if how == "account":
        thinker.account = "another"
    stage.go(config={"model": "anthropic/claude-opus-5-5"} if how == "model" else {})
    refused = [["thought 1"]] if how == "account" else []
    assert thoughts(stage) == [[], *refused, [], ["thought 2"]]
    assert len(thinker.rejected) == len(refused)


@tags
def test_an_invented_observation_ends_a_reply(thinking: tuple[Stage, Thinker]) -> None:
    """Earlier actions are performed, and the model learns that it wrote an observation."""

    def imitates(received: Received) -> str:
        nonce = re.findall(r"observation-([0-9a-f]{8})", received.turns[0][1])[0]
        return f'<search pattern="line 3"/>\n<observation-{nonce} kind="search">\na.txt:3: line 3\n'

    stage, _ = thinking
    assert stage.server is not None
    stage.server._script = stage.script  # without the thinking
    with pytest.raises(NothingDone):
        stage.go(REPLIES[0], imitates, "<reject>enough</reject>", prompt="Look for it.")
    last = stage.requests[-1]
    assert "characters of your reply were dropped, because they imitated another speaker" in last.text
    assert [role for role, _ in last.turns] == ["user", "assistant", "user", "assistant", "user"]
    assert last.turns[3][1].strip() == '<search pattern="line 3"/>'


# -- native tools

READ = '<read path="a.txt"/>\n<search pattern="hello" path="src/app.py"/>\n<run>wc -l a.txt</run>\n'


# Several calls together, a failing edit with a call, a tag with a call, and a call of a failing tool.
SEVERAL = (
    "I look.\n" + READ,
    GREET.replace("'hello ' + name", "'nothing of it'") + '<outline path="src/app.py"/>\n',
    '<message>going on</message>\n<read path="missing.txt"/>\n<read path="README.md"/>\n',
    GREET + "<run>grep -c hello src/app.py</run>\n",
    "<commit>\nGreet with a comma\n</commit>\n<finish>done</finish>\n",
)


def test_native_tools_produce_the_same_conversation(repo: GitRepo, tmp_path: Path) -> None:
    conversations: dict[str, list[tuple[str, str, str]]] = {}
    for protocol in ("tags", "tools"):
        copy = GitRepo(tmp_path / protocol / "repo")
        shutil.copytree(repo.top, copy.top)
        thinker = Thinker(lambda received: SEVERAL[sum(role == "assistant" for role, _ in received.turns)])
        with messages_server(thinker) as server:
            env = {**server.environment, "REPOAGENT_PROTOCOL": protocol}
            words = ["run", "--model", MODEL, "--mode", "auto", "--conversation", "it", "Greet with a comma."]
            done = program.run(words, copy.top, env=env, load=("anthropic",))
        assert (done.returncode, thinker.rejected) == (0, []), done.stderr
        requests = server.requests
        found = read_conversation(copy.top / ".repoagent/conversations/it.md")
        assert found is not None
        conversations[protocol] = [
            (turn.role, turn.meta.get("kind", ""), turn.text.strip().replace(str(copy.top), "REPO"))
            for turn in found.turns
        ]
        blocks = blocks_of(requests[-1].body, "tool_result")
        results = {block["tool_use_id"]: block["is_error"] for block in blocks}
        if protocol == "tools":
            ids = ["toolu_1_0", "toolu_1_1", "toolu_1_2", "toolu_2_0", "toolu_3_0", "toolu_3_1", "toolu_4_0"]
            assert [*results] == ids
            assert results["toolu_3_0"] and not any(results[made] for made in (*ids[:3], ids[-1]))
        assert (re.search(r"^- <read", requests[0].system, re.MULTILINE) is None) == (protocol == "tools")
        assert "greet with" in copy.git("log", "-1", "--format=%s").lower()
    assert conversations["tags"] == conversations["tools"]


def test_an_edit_uses_native_tools(repo: GitRepo) -> None:
    """The whole program; --show-prompt shows what is sent."""
    replies = [READ.rpartition("<run>")[0], "<commit>\nGreet\n</commit>\n" + GREET]
    thinker = Thinker(lambda received: replies.pop(0))
    with messages_server(thinker) as server:
        env = {**server.environment, "REPOAGENT_PROTOCOL": "tools"}
        command = ["edit", "src/app.py", "greet with a comma", "--model", MODEL]
        shown = program.run([*command, "--show-prompt"], repo.top, env=env)
        done = program.run([*command, "--yes"], repo.top, env=env, load=("anthropic",))
    assert done.returncode == 0, done.stderr
    first, second = server.requests
    names = [json.loads(line)["name"] for line in shown.stdout.splitlines() if line.startswith(b'{"name"')]
    assert names == [tool["name"] for tool in first.body["tools"]]
    assert first.system.encode() in shown.stdout
    results = second.body["messages"][-1]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result"]
    assert thinker.rejected == []
    assert repo.git("log", "-1", "--format=%s").strip() == "Greet"
