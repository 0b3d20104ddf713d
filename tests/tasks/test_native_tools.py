"""Reading tools and commands as native tools: the same run in another protocol."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from repoagent.llm.conversation import read_conversation
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET
from tests.llm.providers.messages_server import messages_server
from tests.llm.providers.thinking_server import Thinker
from tests.tasks.scenarios.stage import MODEL

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
        results = {
            block["tool_use_id"]: block["is_error"]
            for message in requests[-1].body["messages"]
            for block in message["content"]
            if block["type"] == "tool_result"
        }
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
