"""A file that is too long to be rewritten as a whole, and a prepared edit of it."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import parse_reply
from repoagent.config.layers import load_settings
from repoagent.edit.prompt.build import PreparedEdit, prepare_prompt
from repoagent.edit.prompt.formats import AnswerFormat, Form
from repoagent.edit.request import EditRequest, Target
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

HEAD = '"""A shop."""\n\nimport os\nfrom pathlib import Path\n\nLIMIT = 10\n\n\n'
BASKET = '''\
class Basket:
    """What is bought."""

    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def put_item(self, item, price):
        """Add one."""
        self.items.append((item, price))
        return len(self.items)

    def total_price(self):
        total = 0
        for _, price in self.items:
            total += price
        return total


'''
TAIL = "def read_names(file):\n    text = Path(file).read_text()\n    return text.splitlines()\n"


def task(name: str, line: str = "result = value") -> str:
    return f"def {name}(value):\n    {line}\n    if result > LIMIT:\n        return LIMIT\n    return result\n\n\n"


SHOP = HEAD + BASKET + "".join(task(f"task_{n}", f"result = value + {n}") for n in range(30)) + TAIL


def prepare_edit(
    repo: GitRepo,
    instruction: str,
    form: Form = "function",
    *,
    targets: Sequence[Target] = (Target("shop.py"),),
    text: str | bytes = SHOP,
) -> PreparedEdit:
    """`text` is the new content of the first target."""
    repo.write(targets[0].path, text)
    return prepare_prompt(
        open_worktree(repo.top),
        EditRequest(instruction, tuple(targets)),
        load_settings(None, repo.top),
        AnswerFormat(form, output_tokens=16_000),
    )


def answer(prepared: PreparedEdit, reply: str) -> Observation:
    """The observation of the edit tool for a reply, parsed as in the loop."""
    (tool, *_) = prepared.tools
    read = parse_reply(reply, {"edit"}, loose=tool.loose)
    assert read.problem is None
    (action,) = read.actions or (Action("none"),)
    assert action.kind == "edit", "the reply contains no edit"
    return tool.perform(action)


def result(prepared: PreparedEdit, path: str = "shop.py") -> str:
    """The new content of the file."""
    return prepared.session.draft.texts()[path].data.decode()
