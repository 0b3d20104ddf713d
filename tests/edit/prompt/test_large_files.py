"""Files that are too long for a prompt: the shown parts, how to read the rest, and correct edits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.config.layers import load_settings
from repoagent.edit.prompt.build import PreparedEdit, prepare_prompt
from repoagent.edit.prompt.formats import AnswerFormat
from repoagent.edit.prompt.large_files import Budget, excerpt_of, file_map, read_part, too_long
from repoagent.edit.prompt.relevance import Relevance, read_query, split_units, word_stems
from repoagent.edit.request import EditRequest, Target
from repoagent.errors import Refused, UsageError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.syntax.outline import outline
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff
from tests.edit.long_file import task

ROOM = Budget(8_000, 2_000)
HEAD = '"""Many tasks."""\n\nimport os\n\nLIMIT = 10\n\n\n'


def source(count: int = 1_500, **changed: str) -> str:
    """A file of `count` functions task_0, task_1, …, with those of `changed` in the middle."""
    made = [task(f"task_{n}") for n in range(count)]
    made[count // 2 : count // 2] = [task(name, line) for name, line in changed.items()]
    return HEAD + "".join(made)


def shown(prepared: PreparedEdit) -> str:
    return "".join(part.text for part in prepared.prompts[0].opening)


def prepare_edit(
    repo: GitRepo,
    instruction: str,
    how: AnswerFormat | None = None,
    *targets: Target,
    read: tuple[str, ...] = (),
) -> PreparedEdit:
    """By default the file to edit is `big.py`."""
    request = EditRequest(instruction, targets or (Target("big.py"),), read=read)
    worktree = open_worktree(repo.top)
    return prepare_prompt(worktree, request, load_settings(layout_of(worktree), repo.top), how)


def test_a_part_is_read_by_lines_or_by_characters_of_a_long_line() -> None:
    for lines, characters in (("x", ""), ("4-9", ""), ("3-2", ""), ("1", "9-12"), ("1", "x"), ("", "1-2")):
        with pytest.raises(UsageError):
            read_part("abc\ndef\nghi\n", lines, characters, 100)
    part = read_part("a\n" * 10, "2-9", "", 8)
    assert (part.text, part.first, part.last) == ("a\na\na\na", 2, 5) and 'lines="6-9"' in part.rest
    whole = read_part("a\nb\n", "", "", 100)
    assert (whole.text, whole.last, whole.rest) == ("a\nb", 2, "")
    line = "".join(map(str, range(1000)))
    part = read_part(f"{line}\nnext\n", "1-2", "", 100)
    assert (part.text, part.characters) == (line[:100], (1, 100))
    assert 'characters="101-200"' in part.rest
    assert read_part(line, "1", "101-200", 100).text == line[100:200]
    assert read_part(line, "1", f"{len(line)}", 100).rest == ""


def test_room_is_shared_and_the_longest_files_are_cut() -> None:
    assert too_long({"a": 10, "b": 64}, 64, None) == {}
    assert set(too_long({"a": 10, "b": 65}, 64, None)) == {"b"}
    assert set(too_long({"a": 10_000, "b": 20_000, "c": 60_000}, 65_536, 50_000)) == {"c"}
    one, six = (too_long({str(n): 10**6 for n in range(count)}, 65_536, None) for count in (1, 6))
    assert sum(room.parts + room.map for room in six.values()) <= 65_536
    assert six["0"].parts < one["0"].parts


@given(st.text(alphabet="ab_ \n\r\té€😀({;", max_size=6_000), st.sampled_from(["x.txt", "x.py", "x.js"]))
def test_the_units_of_a_text_join_to_the_text(text: str, path: str) -> None:
    text = text.replace("\r", "")
    found = split_units(path, text)
    assert "".join(unit.text for unit in found) == text
    lines = text.split("\n")
    for unit in found:
        assert unit.text.removesuffix("\n") == "\n".join(lines[unit.first - 1 : unit.last])


def test_a_line_that_is_too_long_is_not_shown(repo: GitRepo) -> None:
    data = ("var a=1;" * 6_000 + "needle_here();" + "var b=2;" * 6_000).encode()
    assert excerpt_of("x.min.js", data, Relevance("make needle_here faster"), ROOM).parts == ()
    repo.write("big.py", data.decode() + "\n")
    assert "None is shown: its lines are too long." in shown(prepare_edit(repo, "make it faster"))
    with pytest.raises(Refused, match="use one with a larger window"):
        prepare_edit(repo, "make it faster", AnswerFormat("search", short=True, output_tokens=4_000))
    repo.write("big.py", HEAD + data.decode() + "\nlast = 1\n")
    assert re.findall(r'lines="(\S+)">', shown(prepare_edit(repo, "make needle_here faster"))) == ["1-7", "9"]


def test_a_request_is_parsed() -> None:
    query = read_query('in `parse_it` of a.py:12-14 say "no such thing"; File "/x/b.py", line 99', "src/a.py")
    assert query.lines == ((12, 14),)
    assert "no such thing" in query.quotes and "parse_it" in query.names
    assert word_stems("parseHTTPHeaders") == ("pars", "http", "header")


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        ("special_case shall round", "special_case"),
        ("rounding is wrong where the Special Case is handled", "special_case"),
        ('"the frobnicator is empty" is no good message', "frobnicator"),
        ('File "/home/me/big.py", line 5300, in task_9\nValueError', "result = value + 42"),
    ],
)
def test_the_parts_that_a_request_is_about_are_shown(request_: str, line: str) -> None:
    text = source(special_case='raise ValueError("the frobnicator is empty")', other="result = value + 42")
    words = request_.replace("5300", str(_line(text, "+ 42")))
    found = excerpt_of("big.py", text.encode(), Relevance(words), ROOM)
    assert any(line in part.text for part in found.parts)
    assert found.parts[0].first == 1
    assert sum(part.size for part in found.parts) <= ROOM.parts
    assert len(found.outline.encode()) <= ROOM.map


@pytest.mark.parametrize("name", ["Rounder.apply", "Rounder::apply()", "`_carry_over`", "carry_over()"])
def test_a_named_definition_ranks_above_repeated_words(name: str) -> None:
    repeats = "".join(
        f"def step_{n}(value):\n    # round values above the limit, then apply the limit to values\n"
        f"    return round_value(value, LIMIT, {n})\n\n\n"
        for n in range(900)
    )
    body = "    def apply(self, x):\n        return self._carry_over(x)\n\n    def _carry_over(self, x):\n        return x\n"
    text = f"{HEAD}{repeats}class Rounder:\n{body}\n\n{repeats}"
    found = excerpt_of("big.py", text.encode(), Relevance(f"{name} must round values above the limit"), ROOM)
    wanted = "def apply" if "apply" in name else "def _carry_over"
    assert any(wanted in part.text for part in found.parts)


def _line(text: str, what: str) -> int:
    return text[: text.index(what)].count("\n") + 1


@pytest.mark.parametrize(("count", "longest"), [(60, 90), (60, 10), (400, 10)])
def test_definitions_without_room_for_a_line_are_named(count: int, longest: int) -> None:
    made = [task(f"step_{n}").replace("(value)", f"(value{'_' * longest})") for n in range(count)]
    text = HEAD + "".join(made) + task("special_case")
    found = excerpt_of("big.py", text.encode(), Relevance("special_case shall round"), ROOM)
    assert len(found.outline.encode()) <= ROOM.map
    assert "def special_case(value)" in found.outline
    missing = [n for n in range(count) if not re.search(rf"\bstep_{n}\b", found.outline)]
    assert bool(missing) == (count == 400) == ("more definition" in found.outline)
    names = re.findall(r"(\w+) (\d+)(?=, |\n)", found.outline)
    assert names
    for name, line in names:
        assert text.split("\n")[int(line) - 1].startswith(f"def {name}(")


def test_named_lines_rank_above_words(repo: GitRepo) -> None:
    repo.write("big.py", source(special_case="pass"))
    text = shown(prepare_edit(repo, "as special_case does", None, Target("big.py", 9_000, 9_000)))
    assert any(int(a) <= 9_000 <= int(b) for a, b in re.findall(r'lines="(\d+)-(\d+)">', text))


def test_the_limit_can_be_set_and_a_smaller_context_window_applies(repo: GitRepo) -> None:
    text = source(300)
    repo.write("big.py", text)
    assert text in shown(prepare_edit(repo, "task_7 shall round"))
    small = shown(prepare_edit(repo, "task_7 shall round", AnswerFormat(window=12_000, output_tokens=4_000)))
    repo.git("config", "repoagent.edit.inlineLimit", "20000")
    for cut in (small, shown(prepare_edit(repo, "task_7 shall round"))):
        assert "too long to show in full" in cut and "def task_7(value)" in cut
        assert text not in cut and len(cut) < 24_000


def test_the_size_of_a_file_is_that_of_its_text(repo: GitRepo) -> None:
    headings = []
    for encoding, end in (("utf-8", "\n"), ("utf-16", "\n"), ("utf-8", "\r")):
        repo.write("big.py", source().replace("\n", end).encode(encoding))
        headings.append(re.findall(r"\(file to edit; .*", shown(prepare_edit(repo, "task_7 shall round"))))
    assert len(headings[0]) == 1 and headings == headings[:1] * 3


def test_an_outline_that_fits_is_whole() -> None:
    symbols = outline("big.py", source(30).encode())
    whole = file_map(symbols, (), read_query("make it faster"), 10_000)
    assert whole.count("\n") == len(symbols)
    size = len(whole.encode())
    assert file_map(symbols, (), read_query("make it faster"), size) == whole
    assert file_map(symbols, (), read_query("make it faster"), size - 1) != whole


def test_a_small_model_without_tools_gets_no_outline_and_no_advice(repo: GitRepo) -> None:
    repo.write("big.py", source(3_000))
    how = AnswerFormat("search", short=True, output_tokens=4_000)
    text = shown(prepare_edit(repo, "make everything faster", how))
    assert "of which only lines" in text and "<read" not in text and "<outline" not in text
    assert len(text) < 40_000


@pytest.mark.parametrize("count", [5_000, pytest.param(21_500, marks=pytest.mark.soak)])  # 0.5 and 2 MB
def test_a_large_file_is_edited(repo: GitRepo, run: Run, script: Script, count: int) -> None:
    text = source(count, special_case="result = 0")
    repo.commit("big", **{"big.py": text})
    last = f"task_{count - 10}"
    line = _line(text, f"def {last}(")
    script.replies(
        f'<read path="big.py" lines="{line}-{line + 4}"/>\n<read path="big.py" symbol="task_3"/>\n'
        '<search path="big.py" pattern="def task_434[0-9][(]"/>\n',
        diff("big.py", f" def {last}(value):", "-    result = value", "+    result = value + 1"),
    )
    run("edit", "big.py", "special_case and its friends shall add one", "--yes", code=0)
    first, second = script.prompts
    assert "def special_case" in first and f"def {last}" not in first
    assert len(first) < 50_000 < 90 * count < len(text)
    assert f'lines="{line}-{line + 4}"' in second and "def task_3(value)" in second
    assert second.count("big.py:") >= 10
    old = f"{last}(value):\n    result = value"
    assert repo.read("big.py").decode() == text.replace(f"{old}\n", f"{old} + 1\n")


def test_tools_report_what_they_cannot_show(repo: GitRepo) -> None:
    repo.write("big.py", source(3_000, _special_case="pass") + "x = '" + "a" * 50_000 + "needle" + "'\n")
    tools = {tool.name: tool for tool in prepare_edit(repo, "x").tools}

    def use(tool: str, **arguments: str) -> Observation:
        return tools[tool].perform(Action(tool, {"path": "big.py", **arguments}))

    whole = use("read")
    assert whole.ok and "are omitted" in whole.text and len(whole.text) < 26_000
    assert not use("read", symbol="nothing").ok
    near = use("read", symbol="Special_Case")
    assert not near.ok and "nearest: _special_case" in near.text
    found = use("search", pattern="needle").text
    assert "needle" in found and len(found) < 500


@pytest.mark.soak
def test_unseen_lines_must_be_quoted_exactly(repo: GitRepo, run: Run, script: Script) -> None:
    body = "    first = 1\n    second = first + 1\n    third = second * 7\n    return third\n\n\n"
    text = source(3_000, far_away_marker="pass")
    text = text.replace("def far_away_marker", f"def far_away():\n{body}def far_away_marker")
    repo.commit("big", **{"big.py": text})
    hunk = (" def far_away():", "     first = 1", "     second = first + 2", "-    third = second * 7",
            "+    third = second * 8", "     return third")  # fmt: skip
    line = _line(text, "def far_away()")
    script.replies(
        diff("big.py", *hunk), f'<read path="big.py" lines="{line}-{line + 5}"/>\n', diff("big.py", *hunk)
    )
    run("edit", "big.py", "task_7 shall round", "--yes", code=0)
    assert "which you have not seen" in script.prompts[1]
    assert repo.read("big.py").decode() == text.replace("second * 7", "second * 8")


def test_recently_changed_lines_rank_higher(repo: GitRepo) -> None:
    text = source(1_500)
    repo.commit("big", **{"big.py": text})
    repo.commit("turn", **{"big.py": text.replace("def task_700(value):", "def task_700(value):  # turned")})
    assert "def task_700(value)" in shown(prepare_edit(repo, "finish what was begun"))


def test_several_large_files_share_the_room(repo: GitRepo) -> None:
    paths = tuple(f"big{n}.py" for n in range(5))
    for path in paths:
        repo.write(path, source(2_000, special_case="pass"))
    words = "special_case and LIMIT shall go together"
    text = shown(prepare_edit(repo, words, None, *map(Target, paths[:-1]), read=paths[-1:]))
    assert text.count("def special_case") == 2 * len(paths)  # in the outline and in a part
    assert text.count("for reading only; 14,") == 1 and len(text) < 80_000
    assert text.index("Of files too long to show in full") > text.rindex("</file")
