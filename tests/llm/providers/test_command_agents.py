"""Coding agents for `command:`; fake ones on PATH behave as the manuals, sources and output of the real ones say."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, Usage
from repoagent.llm.providers.command import CommandModel
from repoagent.llm.providers.command_agents import full_command, masked_command
from tests.llm.conftest import Put
from tests.llm.helpers import call

FAKES = {
    "claude": """
if 'CLAUDECODE' in os.environ:
    sys.exit('Error: Claude Code cannot be launched inside another Claude Code session.')
if '--tools' not in args:
    open('edited.txt', 'w').write('behind your back')
words = plan.get('text', 'done')
if option('--output-format') == 'stream-json':
    assert '--verbose' in args and '-p' in args
    event(type='system', subtype='init', model='claude-sonnet-5-5', tools=[])
    for piece in (words[:2], words[2:]):
        event(type='stream_event', event={'type': 'content_block_delta', 'delta': {'type': 'text_delta', 'text': piece}})
    event(type='assistant', message={'content': [{'type': 'text', 'text': words}]})
if 'json' in (option('--output-format') or ''):
    result = dict(type='result', subtype='success', is_error=False, result=words, total_cost_usd=0.01, stop_reason='end_turn',
        modelUsage={'claude-haiku-5-5': {'outputTokens': 7}},
        usage=dict(input_tokens=3, output_tokens=7, cache_read_input_tokens=20, cache_creation_input_tokens=5))
    event(**{**result, **plan.get('result', {})})
else:
    print(words)
sys.exit(plan.get('code', 0))
""",
    "codex": """
if '--skip-git-repo-check' not in args and not os.path.isdir('.git'):
    sys.exit('Not inside a trusted directory and --skip-git-repo-check was not specified.')
if 'exec' not in args:
    sys.exit('Error: stdin is not a terminal')
if option('--sandbox') != 'read-only':
    open('edited.txt', 'w').write('behind your back')
print('workdir: x\\nmodel: gpt\\n--------', file=sys.stderr)
if '--json' not in args:
    print('done')
    sys.exit()
event(type='thread.started', thread_id='1')
event(type='error', message='Reconnecting... 1/5')
event(type='item.completed', item={'id': '0', 'type': 'reasoning', 'text': 'hm'})
event(type='item.completed', item={'id': '1', 'type': 'agent_message', 'text': 'let me see'})
if plan.get('failed'):
    event(type='turn.failed', error={'message': plan['failed']})
    sys.exit(1)
event(type='item.completed', item={'id': '2', 'type': 'agent_message', 'text': 'done'})
event(type='turn.completed', usage=dict(input_tokens=100, cached_input_tokens=60, output_tokens=9))
""",
}
HEAD = """#!{python}
import json, os, sys
args = sys.argv[1:]
plan = json.loads(os.environ.get('PLAN', '{{}}'))
prompt = sys.stdin.read()
with open(os.environ['SEEN'], 'w') as file:
    json.dump(dict(args=args, cwd=os.getcwd(), files=os.listdir(), prompt=prompt, env=dict(os.environ)), file)
def option(name):
    return next((args[at + 1] for at, arg in enumerate(args) if arg == name), None)
def event(**fields):
    print(json.dumps(fields), flush=True)
"""


@pytest.fixture
def programs(tmp_path: Path, put: Put, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs on PATH, in an empty folder; what was seen of the last call is in the file that is returned."""
    folder, seen = tmp_path / "bin", tmp_path / "seen.json"
    folder.mkdir()
    for name, script in FAKES.items():
        (folder / name).write_text(HEAD.format(python=sys.executable) + script)
        (folder / name).chmod(0o755)
    put(
        SEEN=str(seen),
        CLAUDECODE="1",
        GIT_DIR="/no/such/repository/.git",
        PATH=f"{folder}:{os.environ['PATH']}",
    )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return seen


def reply(command: str) -> Reply:
    return call(CommandModel(command, 20))


@pytest.mark.soak
@pytest.mark.parametrize(("command", "model", "usage"), [
    ("claude -p", "claude -p (claude-sonnet-5-5)", Usage(3, 7, 20, 5, dollars=0.01)),
    ("claude", "claude (claude-sonnet-5-5)", Usage(3, 7, 20, 5, dollars=0.01)),
    ("claude -p --output-format json", "claude -p --output-format json (claude-haiku-5-5)", Usage(3, 7, 20, 5, dollars=0.01)),
    ("codex exec", "codex exec", Usage(40, 9, 60, 0)),
    ("codex -m gpt-6", "codex -m gpt-6", Usage(40, 9, 60, 0)),
])  # fmt: skip
def test_known_commands(command: str, model: str, usage: Usage, programs: Path) -> None:
    got = reply(command)
    assert (got.text.strip(), got.model, got.usage) == ("done", f"command:{model}", usage)
    assert "make it faster" in json.loads(programs.read_text())["prompt"]


def test_an_agent_runs_in_an_empty_folder(programs: Path) -> None:
    for command in ("claude -p", "codex exec"):
        reply(command)
        seen = json.loads(programs.read_text())
        assert seen["files"] == [] and "GIT_DIR" not in seen["env"]
        assert not list(Path.cwd().iterdir())  # its arguments forbid edits
        assert not Path(seen["cwd"]).exists()  # a temporary folder, removed afterwards


def test_a_shell_line_and_a_selected_format_are_left_alone(programs: Path, put: Put) -> None:
    got = reply("claude -p --output-format text")
    assert (got.text, got.usage.estimated) == ("done\n", True)
    put(CLAUDECODE="")
    assert reply("claude --tools x | tail -n 1").text == "done\n"
    assert json.loads(programs.read_text())["args"] == ["--tools", "x"]


def test_arguments_added_to_a_command() -> None:
    added = {
        "KEY=1 ~/bin/codex e": " --json --sandbox read-only --skip-git-repo-check --ephemeral",
        "codex exec --yolo --json": " --skip-git-repo-check --ephemeral",
    }
    same = ("cat", "llm -m X", "claude -p > x", "claude -p # mine", "claude -p $(cat x)", "claude 'open", "")
    for command in (*added, *same):
        line = command + added.get(command, "")
        assert full_command(command) == full_command(line) == line


def test_a_key_is_never_shown() -> None:
    shown = masked_command("A_KEY=abc llm -m X --key abc --api-key=abc --token 'abc' -H sk-ant-REDACTED")
    assert "abc" not in shown and "llm -m X" in shown


@pytest.mark.parametrize(("command", "fields", "words"), [
    ("claude -p", {"code": 1, "result": {"is_error": True, "result": "Invalid API key · Please run /login"}},
     r"`claude -p` failed: Invalid API key · Please run /login; start `claude` once and log in"),
    ("claude -p", {"code": 1, "result": {"is_error": True, "result": "You've hit your limit · resets 3am (Europe/Berlin)"}},
     "failed: You've hit your limit · resets 3am"),
    ("claude -p", {"result": {"subtype": "error_max_turns", "result": None}}, "failed: error_max_turns"),
    ("claude -p", {"result": {"type": "other"}}, "printed output in an unknown format"),
    ("claude -p", {"text": " "}, "printed no reply"),
    ("codex exec", {"failed": "You've hit your usage limit. Try again at 3:12 PM."}, "failed: You've hit your usage limit"),
    ("codex exec", {"failed": "unexpected status 401 Unauthorized"}, "401 Unauthorized; run `codex login`"),
])  # fmt: skip
@pytest.mark.usefixtures("programs")
def test_failures_quote_the_program(command: str, fields: dict[str, object], words: str, put: Put) -> None:
    put(PLAN=json.dumps(fields))
    with pytest.raises(ModelError, match=words):
        reply(command)


def test_a_program_that_is_not_installed(put: Put) -> None:
    put(PATH="/usr/bin:/bin")
    advice = r"cannot run `codex exec`: .*; to install it: npm install -g @openai/codex"
    with pytest.raises(ModelError, match=advice):
        reply("codex exec")
