"""The requested formats, and how answers are read, including typical mistakes of small models."""

from __future__ import annotations

import re

import pytest

from repoagent.agent.parse_reply import parse_reply
from repoagent.config.layers import load_settings
from repoagent.edit.prompt.build import prepare_prompt
from repoagent.edit.prompt.formats import AnswerFormat, Form, choose_form, fits_whole, form_after
from repoagent.edit.request import EditRequest, Target
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff
from tests.edit.long_file import SHOP, answer, prepare_edit, result

TOTAL = """\
    def total_price(self):
        total = 0
        for _, price in self.items:
            total += price
        return total
"""
ROUNDED = TOTAL.replace("return total", "return round(total, 2)")
EXPECTED = SHOP.replace(TOTAL, ROUNDED)


def fenced(path: str, text: str) -> str:
    return f"I round it.\n\n```{path}\n{text}```\n"


DEF = "    def total_price(self):\n"
LACKS = "does not contain the whole new Basket.total_price"
# Refused, with the reminder of what to send, and without a change.
REFUSED = {
    "lacks the definition": ("        return round(total, 2)\n", LACKS),
    "another name": (ROUNDED.replace("total_price", "sum_price"), LACKS),
    "dots for the body": (DEF + "        ...\n        return round(total, 2)\n", "Write every line"),
    "a comment for the body": (ROUNDED.replace("total = 0", "# ... existing code ..."), "Write every line"),
    "does not parse": (ROUNDED.replace("total, 2)", "total, 2"), "no longer parse"),
    "nothing changed": (TOTAL, "is the same as the file"),
    "stops at an old line": (TOTAL[: TOTAL.index("            ")].replace("0", "1"), "no longer parse|are missing"),
    "only the end is missing": (TOTAL[: TOTAL.index("        for")], "are missing"),
    "cut off": (ROUNDED, "ends before its last line"),
    "not shown": ("def read_names(file):\n    return []\n", LACKS),
    "not shown, and new": ("def helper():\n    return 1\n\n\ndef read_names(file):\n    return []\n", LACKS),
    "twice, in two versions": (ROUNDED + "\n" + ROUNDED.replace("2", "3"), "would appear twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_incomplete_part_is_sent_back(repo: GitRepo, name: str) -> None:
    text, why = REFUSED[name]
    prepared = prepare_edit(repo, "total_price shall round to cents")
    reply = fenced("shop.py", text)
    seen = answer(prepared, reply.removesuffix("```\n") if name == "cut off" else reply)
    assert not seen.ok and re.search(why, seen.text), seen.text
    ending = "the whole new Basket.total_price between the lines ```shop.py and ```, and nothing else."
    assert seen.text.endswith(ending) and len(seen.text) < 500
    assert result(prepared) == SHOP


EXAMPLE = "\n# Example usage\nbasket = Basket(1)\nprint(basket.total_price())\n"
BLOCK = "<<<<<<< SEARCH\n        return total\n=======\n        return round(total, 2)\n>>>>>>> REPLACE\n"
ANSWERS = {
    "as requested": fenced("shop.py", ROUNDED),
    "at column 0": fenced("shop.py", "".join(line[4:] + "\n" for line in ROUNDED.splitlines())),
    "first line at column 0": fenced("shop.py", ROUNDED.lstrip()),
    "language only": fenced("python", ROUNDED),
    "language and path": fenced("python shop.py", ROUNDED),
    "other folder": fenced("src/shop.py", ROUNDED),
    "path in a comment": fenced("python", "# shop.py\n" + ROUNDED),
    "fence in the sentence": f"I round it: ```shop.py\n{ROUNDED}```\n",
    "blank lines around": fenced("shop.py", f"\n\n{ROUNDED}\n\n"),
    "inside its class": fenced("shop.py", f"class Basket:\n    # ... other methods\n{ROUNDED}"),
    "whole file": fenced("shop.py", EXPECTED),
    "whole file, after the old one": fenced("shop.py", SHOP) + fenced("shop.py", EXPECTED),
    "twice": fenced("shop.py", ROUNDED) * 2,
    "example at the end": fenced("shop.py", ROUNDED + EXAMPLE),
    "explained after it": fenced("shop.py", ROUNDED) + "Try it:\n\n```bash\npython -c 'import shop'\n```\n",
    "search/replace": fenced("shop.py", BLOCK),
    "diff": diff("shop.py", "-        return total", "+        return round(total, 2)"),
    "CRLF": fenced("shop.py", ROUNDED).replace("\n", "\r\n"),
}


def test_a_retry_does_not_show_a_small_model_its_bad_answer(repo: GitRepo, run: Run, script: Script) -> None:
    old = repo.read("src/app.py").decode()
    new = old.replace("'hello ' + name", "f'hello, {name}'")
    script.replies(
        fenced("src/app.py", "# ... the rest as before\n"),
        fenced("src/app.py", new.replace("hello", "howdy")),
        fenced("src/app.py", new),
    )
    check = "grep -q 'f.hello' src/app.py || { echo '===== 0 assistant ====='; exit 1; }"
    run("edit", "src/app.py", "greet with a comma", "--yes", "--format", "whole", "--check", check, code=0)
    assert repo.read("src/app.py").decode() == new
    first, second, third = script.prompts
    opening, _, _ = first.partition("Answer with the whole")
    assert second.startswith(opening.rstrip())
    for prompt in (second, third):
        assert prompt.count("Answer with the whole") == 2  # in the system prompt and at the end
        assert "I round it" not in prompt
    assert "An earlier answer was wrong:\nNot applied: " in second and "the rest as before" not in second
    # the prompt shows its first attempt as the file
    assert "howdy" in third and "'hello ' + name" not in third
    assert "which fails the check:\n<output>" in third and "An earlier answer" not in third


def test_the_grammar_limits_the_answer_to_a_fence(repo: GitRepo) -> None:
    prepared = prepare_edit(repo, "total_price shall round to cents")
    turns = [Turn("user", "x"), Turn("assistant", "y"), Turn("observation", "Not applied", {"ok": "no"})]
    for some in (turns[:1], turns):
        request = prepared.prompts[0].request(some, "0", key="", max_output_tokens=9)
        rules = 'root ::= "```shop.py\\n" line+ "```"\nline ::= ([^`\\n] [^\\n]*)? "\\n"'
        assert request.grammar.startswith(rules)
    assert prepare_edit(repo, "x", "diff").prompts[0].grammar == ""


def test_code_in_an_answer_is_only_a_quotation_if_a_diff_was_requested(repo: GitRepo) -> None:
    reply = "Do you mean this?\n\n```python\n" + ROUNDED + "```\n"
    assert not parse_reply(reply, {"edit"}).actions
    assert not parse_reply("So: ```shop.py\n" + ROUNDED + "```\n", {"edit"}).actions
    prepared = prepare_edit(repo, "total_price shall round", "diff")
    assert not prepared.tools[0].loose
    opening = "".join(part.text for part in prepared.prompts[0].opening)
    assert "File shop.py (file to edit; 240 lines)" in opening


def test_the_prompt_of_a_small_model(repo: GitRepo) -> None:
    prepared = prepare_edit(repo, "total_price shall round to cents")
    prompt = "".join(part.text for part in (*prepared.prompts[0].system, *prepared.prompts[0].opening))
    assert f"Basket.total_price of shop.py:\n```python\n{TOTAL}```\n" in prompt
    # a small model rewrites everything near the part
    assert "read_names" not in prompt and "import os" not in prompt
    assert prompt.endswith("and nothing else.\n") and len(prompt) < 1_200


def test_an_added_definition_selects_no_part(repo: GitRepo) -> None:
    text = SHOP.replace("def task_5(", "def low(")
    for request in ("Add a method low(limit) to Basket", "Add a new function `low` beside read_names"):
        windows = prepare_edit(repo, request, text=text).session.windows.get("shop.py", ())
        assert all("low" not in window.names for window in windows)
    (window,) = prepare_edit(repo, "Add a test to low()", text=text).session.windows["shop.py"]
    assert window.names == ("low",)


def test_lines_or_an_answer_select_the_part(repo: GitRepo) -> None:
    pointed = prepare_edit(repo, "round", targets=[Target("shop.py", 22, 23)])
    assert pointed.session.form == "function"
    asks = prepare_edit(repo, "make it round to cents")
    assert (asks.session.form, asks.session.short) == ("search", True)
    assert "Basket.total_price" in asks.question
    assert asks.located("I don't know").session.form == "search"
    found = asks.located("Basket.total_price")
    assert (found.session.form, found.question) == ("function", "")
    assert answer(found, ANSWERS["as requested"]).ok
    assert answer(asks, ANSWERS["search/replace"]).ok


STEPS = "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(20))


@pytest.mark.parametrize(
    ("form", "instruction", "text", "chosen"),
    [
        ("whole", "total_price shall round", SHOP, "function"),
        ("whole", "make it round", SHOP, "search"),
        ("whole", "change f", "def f():\n    pass\n" * 20, "whole"),
        ("function", "change task_2", SHOP[:2500], "function"),
        ("function", "make it round", SHOP[:900], "whole"),
        ("function", "change f", "def f():\n    pass\n", "whole"),
        ("function", "step_3 shall return 4", STEPS, "function"),
        ("function", "rename step_3 to last_step", STEPS, "whole"),  # a short file
        ("search", "total_price shall round", SHOP, "search"),
        ("diff", "total_price shall round", SHOP, "diff"),
    ],
)
def test_form_by_file(repo: GitRepo, form: Form, instruction: str, text: str, chosen: str) -> None:
    assert prepare_edit(repo, instruction, form, text=text).session.form == chosen


def test_other_forms_after_refusals() -> None:
    diffs, searches = ["diff"] * 2, ["search"] * 2
    assert [form_after("diff", n, fits=True) for n in range(6)] == [*diffs, *searches, "whole", "whole"]
    assert [form_after("diff", n, fits=False) for n in range(6)] == [*diffs, *searches, *searches]
    assert form_after("function", 2, fits=False) == "function"
    assert form_after("function", 2, fits=True) == form_after("whole", 2, fits=True) == "whole"
    assert choose_form("function", {"a": False, "b": True}, ["a"]) == "function"
    assert choose_form("function", {"a": False, "b": False}, ["a"]) == "search"
    assert not fits_whole(b"x\n" * 100, 200) and not fits_whole(b"\0", 16_000)


def test_another_form_is_requested_after_two_refusals(repo: GitRepo) -> None:
    prepared = prepare_edit(repo, "total_price shall round to cents")
    texts = [answer(prepared, fenced("shop.py", TOTAL)).text for _ in range(3)]
    assert not any("<<<<<<< SEARCH" in text for text in texts)  # a small model would copy the example
    assert all(text.endswith(prepared.session.reminder.strip()) for text in texts)
    assert answer(prepared, ANSWERS["language only"]).ok
    long = prepare_edit(repo, "total_price shall round to cents", "diff")
    wrong = ANSWERS["diff"].replace("-        return total", "-        return totals")
    texts = [answer(long, wrong).text for _ in range(4)]
    assert ["<<<<<<< SEARCH" in text for text in texts] == [False, True, False, False]


def test_a_new_file_needs_no_name(repo: GitRepo) -> None:
    request = EditRequest("write it", (Target("new.py"),), create=True)
    prepared = prepare_prompt(
        open_worktree(repo.top), request, load_settings(None, repo.top), AnswerFormat("whole")
    )
    assert answer(prepared, fenced("python", "x = 1\n")).ok
    assert result(prepared, "new.py") == "x = 1\n"


def edited(repo: GitRepo, request: str, reply: str, path: str = "shop.py", text: str = SHOP) -> str:
    """The file after the answer of a small model; in long files only a part is requested."""
    form: Form = "function" if path in {"shop.py", "m.js"} else "whole"
    prepared = prepare_edit(repo, request, form, targets=[Target(path)], text=text)
    seen = answer(prepared, reply)
    assert seen.ok, seen.text
    return result(prepared, path)


@pytest.mark.soak
@pytest.mark.parametrize("name", ANSWERS)
def test_typical_mistakes_of_small_models_are_repaired(repo: GitRepo, name: str) -> None:
    assert edited(repo, "total_price shall round to cents", ANSWERS[name]) == EXPECTED


def test_a_second_answer_replaces_the_part_at_its_current_lines(repo: GitRepo) -> None:
    prepared = prepare_edit(repo, "total_price shall round to cents")
    longer = f"import math\n\n{TOTAL}\n    def pay(self):\n        return math.ceil(self.total_price())\n"
    for reply in (longer, ROUNDED):
        assert answer(prepared, fenced("shop.py", reply)).ok
    assert result(prepared) == EXPECTED.replace("import Path\n", "import Path\nimport math\n")


def test_bytes_outside_the_part_do_not_change(repo: GitRepo) -> None:
    text = SHOP.replace("\n", "\r\n").replace("A shop", "Ein Geschäft").encode("latin-1").rstrip()
    prepared = prepare_edit(repo, "in read_names skip the head", text=text)
    new = "def read_names(file):\n    return Path(file).read_text().splitlines()[1:]  # für alle\n"
    assert answer(prepared, fenced("shop.py", new)).ok
    after = prepared.session.draft.texts()["shop.py"].data
    start = text.index(b"def read_names")
    assert after == text[:start] + new.rstrip().replace("\n", "\r\n").encode("latin-1")


JOBS = "# Runs the tests.  Keep it short.\non: push\n\njobs:\n  unit: 3.10   \n  # the last\n  docs: 3.12\n"
BARE_JOBS = "on: push\njobs:\n  unit: 3.10\n  docs: 3.12\n  more: 3.13\n"
HEADINGS = "# One\n\ntext\n\n# Two\n\nmore\n\n# Three\n\nlast\n"
FROZEN = "def one():\n    return 1\n\n\ndef keep_me():\n    return 2\n"
HEADS = "HEADS = ('number', 'total')\n\n\ndef total(rows):\n    return sum(rows)\n\n\ndef show(rows):\n    print('total', total(rows))\n"
NET = HEADS.replace("total", "net_total")
SHELF = "class Shelf:\n    def add(self, x):\n        self.items.append(x)\n\n    def _find(self, x):\n        return self.items.index(x)\n"
LOW = "    def low(self):\n        return min(self.items)\n"
OVERWRITTEN = SHELF[: SHELF.index("    def _find")] + LOW
VOLUMES = "    volumes:\n      - cache:/data\n"
HEALTH = '    healthcheck:\n      test: ["CMD", "redis-cli"]\n'
REDIS = f"services:\n  redis:\n    image: redis:7\n{VOLUMES}  web:\n    image: web\n"
SCRIPT = "#!/bin/sh\nset -eu\n\nfor n in 1 2 3; do\n\techo $n\ndone\n"
MAKE = "# Notes\n\nRun:\n\n```\nmake\n```\n\nThen:\n\n```\nmake test\n```\n\nDone.\n"
SUM_PRICE = TOTAL.replace("total_price", "sum_price")
FSUM = ROUNDED.replace("round(total, 2)", "math.fsum([total])")
WITH_FSUM = SHOP.replace(TOTAL, FSUM).replace("import Path\n", "import Path\nimport math\n")
PARTS = "".join(f"  part{n}(x) {{\n    return x + {n};\n  }}\n\n" for n in range(60))
PART = "part7(x) {\n  return 2 * x + 7;\n}\n"
FS, PATH = "const fs = require('fs');\n", "const path = require('path');\n"
CLASS = f"{FS}\nclass Many {{\n{PARTS}}}\n"
DOUBLED = CLASS.replace("return x + 7;", "return 2 * x + 7;")
APP = "def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n"
COMMA = APP.replace("'hello ' + name", "f'hello, {name}'")
GREETED = ("greet with a comma", "src/app.py", (APP, COMMA))


@pytest.mark.parametrize(
    ("request_", "path", "texts", "reply"),
    [
        # comments and blank lines that the request does not mention
        ("Run on 3.13 too", ".ci/t.yml", (JOBS, JOBS + "  more: 3.13\n"), ("ci/t.yml", BARE_JOBS)),
        ("Remove the comments", ".ci/t.yml", (JOBS, BARE_JOBS), (".ci/t.yml", BARE_JOBS)),
        ("fold Two into One", "n.md", (HEADINGS, HEADINGS.replace("# Two\n\n", "")), ("n.md", HEADINGS.replace("# Two\n\n", ""))),
        # a definition that must stay
        ("one returns 3. keep_me stays as it is.", "t.py", (FROZEN, FROZEN.replace("1", "3")), ("t.py", FROZEN.replace("1", "3").replace("2", "4"))),
        ("one returns 3, keep_me 4.", "t.py", (FROZEN, FROZEN.replace("1", "3").replace("2", "4")), ("t.py", FROZEN.replace("1", "3").replace("2", "4"))),
        # string literals in a rename
        ("Rename total to net_total.", "t.py", (HEADS, NET.replace("'net_total'", "'total'")), ("t.py", NET)),
        ("Rename total to net_total, and the heading 'total' too.", "t.py", (HEADS, NET), ("t.py", NET)),
        ("Call total net_total everywhere.", "t.py", (HEADS, NET), ("t.py", NET)),
        # an overwritten definition
        ("Add a method low to Shelf.", "s.py", (SHELF, f"{SHELF}\n{LOW}"), ("s.py", OVERWRITTEN)),
        ("Put low in place of _find.", "s.py", (SHELF, OVERWRITTEN), ("s.py", OVERWRITTEN)),
        ("Give redis a healthcheck.", "c.yml", (REDIS, REDIS.replace(VOLUMES, VOLUMES + HEALTH)), ("c.yml", REDIS.replace(VOLUMES, HEALTH))),
        ("Give redis a healthcheck instead of volumes.", "c.yml", (REDIS, REDIS.replace(VOLUMES, HEALTH)), ("c.yml", REDIS.replace(VOLUMES, HEALTH))),
        # names of files
        ("count to 4", "bin/wait-for", (SCRIPT, SCRIPT.replace("2 3", "2 3 4")), ("bin/wait-for", SCRIPT.replace("2 3", "2 3 4"))),
        ("Rename Basket.total_price to Basket.sum_price", "shop.py", (SHOP, SHOP.replace(TOTAL, SUM_PRICE)), ("shop.py", SUM_PRICE)),
        # an import moves to the other imports, unless it is there
        ("total_price shall use fsum", "shop.py", (SHOP, WITH_FSUM), ("shop.py", f"import math\nimport os\nfrom pathlib import Path\n\n{FSUM}")),
        ("part7 shall double x", "m.js", (CLASS, DOUBLED), ("javascript", f'const fs = require("fs")\n\n{PART}')),
        ("part7 shall double x", "m.js", (CLASS, DOUBLED.replace(FS, FS + PATH)), ("javascript", f"{PATH}\n{PART}")),
        # a whole file: below the end of its name or a language, only the first function, twice
        (*GREETED, ("app.py", COMMA)),
        (*GREETED, ("python", COMMA)),
        (*GREETED, ("src/app.py", COMMA.partition("\n\n\n")[0] + "\n")),
        (*GREETED, ("app.py", f"{COMMA}\n\n{COMMA}")),
    ],
)  # fmt: skip
def test_an_answer_changes_only_what_was_requested(
    repo: GitRepo, request_: str, path: str, texts: tuple[str, str], reply: tuple[str, str]
) -> None:
    old, wanted = texts
    assert edited(repo, request_, fenced(*reply), path, old) == wanted


def test_a_rename_to_another_name_than_requested_is_refused(repo: GitRepo) -> None:
    other = prepare_edit(repo, "Rename Basket.total_price to Basket.sum_price")
    assert not answer(other, fenced("shop.py", TOTAL.replace("total_price", "price"))).ok


def test_a_block_that_changes_what_must_stay_is_refused(repo: GitRepo) -> None:
    prepared = prepare_edit(
        repo, "one returns 3. keep_me stays as it is.", "whole", targets=[Target("t.py")], text=FROZEN
    )
    block = "t.py\n<<<<<<< SEARCH\n    return 2\n=======\n    return 4\n>>>>>>> REPLACE\n"
    seen = answer(prepared, block)
    assert not seen.ok and "keep_me must stay unchanged, as the request says." in seen.text
    assert answer(prepared, block.replace("2", "1").replace("4", "3")).ok


def test_a_markdown_file_is_requested_in_another_fence(repo: GitRepo) -> None:
    prepared = prepare_edit(repo, "say pytest", "whole", targets=[Target("n.md")], text=MAKE)
    assert prepared.session.reminder.endswith("between the lines ~~~n.md and ~~~, and nothing else.\n")
    new = MAKE.replace("make test", "pytest")
    assert edited(repo, "say pytest", f"~~~n.md\n{new}~~~\n", "n.md", MAKE) == new
