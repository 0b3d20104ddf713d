"""Shell text is parsed as bash does: no command is hidden, and uncertain results have a doubt."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.approvals.shell_words import ParsedCommand, Word


def commands_of(text: str) -> list[str]:
    return [" ".join(word.text for word in command.words) for command in read_command(text).commands]


FOUND = [
    ("git log; rm -rf x", ["git log", "rm -rf x"]),
    ("git log\nrm x", ["git log", "rm x"]),
    ("git log && (cd a; ls) | wc -l", ["git log", "cd a", "ls", "wc -l"]),
    ("ls & rm x", ["ls", "rm x"]),
    ("echo 'a; b' \"c && d\" e\\;f", ["echo a; b c && d e;f"]),
    ("ls # rm x", ["ls"]),
    ("ls \\\n  -l a", ["ls -l a"]),
    ("if [ -f x ]; then ls; else make test; fi", ["[ -f x ]", "ls", "make test"]),
    ("for f in a b; do rm $f; done", ["rm $f"]),
    ("while true; do ls; done", ["true", "ls"]),
    ("! ls", ["ls"]),
    ("grep foo$ a", ["grep foo$ a"]),
    ("grep -c ^$ a | head -$", ["grep -c ^$ a", "head -$"]),
    ("X=a$ grep 'a b'$ c\nls $", ["grep a b$ c", "ls $"]),
    ("{ ls; make; }", ["ls", "make"]),
    ("timeout 5 nice -n 3 make test", ["timeout 5 nice -n 3 make test", "nice -n 3 make test", "make test"]),
    ("bash -c 'git log; rm x'", ["bash -c git log; rm x", "git log", "rm x"]),
    ("eval 'rm x'", ["eval rm x", "rm x"]),
    ("sudo -u bob rm x", ["sudo -u bob rm x", "rm x"]),
    ("python <<'EOF'\n$(rm x)\nEOF\nls", ["python", "ls"]),
    ("time make", ["time make", "make"]),
    ("git bisect run rm x", ["git bisect run rm x", "rm x"]),
    ("git -C run bisect run rm x", ["git -C run bisect run rm x", "rm x"]),
    ("git bisect start", ["git bisect start"]),
    ("echo \"$(rm x)\"", ["echo $(rm x)", "rm x"]),
    ("echo \"a $(echo \"$(rm x)\")\"", ["echo a $(echo \"$(rm x)\")".replace('"', ""), "echo $(rm x)", "rm x"]),
]  # fmt: skip


def test_commands_are_found() -> None:
    for text, commands in FOUND:
        assert read_command(text).doubt == "", text
        assert sorted(part.replace('"', "") for part in commands_of(text)) == sorted(commands), text


HIDDEN = [
    "diff <(rm x) a", "echo `rm x`", "cat <<EOF\n$(rm x)\nEOF", "cat <<EOF\n`rm x`\nEOF", "f() { rm x; }; f", "case a in a) rm x;; esac",
    "echo ${y:-$(rm x)}", "echo $((1 + $(rm x)))", "export A=$(rm x)", "[[ $(rm x) ]]", "a=($(rm x))", "if true; then rm x",
]  # fmt: skip


def test_commands_in_ambiguous_text_are_found_with_a_doubt() -> None:
    for text in HIDDEN:
        assert read_command(text).doubt and "rm x" in commands_of(text), text


DOUBTFUL = [
    "$X a", '"$@"', "*/rm x", "{rm,x}", "~/rm x", "`echo rm` x", "$(echo rm) x", "r$'m' x", "ls a$\\\n(rm x)", "ls a$/b", "a[$(x)]=1",
    "echo $((x))", "echo $[x]", "echo ${!x}", "echo ${x@P}", "[[ $x -eq 1 ]]", "[ -v x ]", "[ a -o -v 'a[$(x)]' ]",
    "printf -v x y", "alias ls=rm\nls", "shopt -s expand_aliases", "trap 'rm x' EXIT", "source f", ". f", "set -- a",
    "eval $x", "time ! rm x", "bash -c $x", "bash -lc 'ls'", "env -S 'rm x'", "env =1 rm x", "parallel rm ::: a", "git -c alias.x=y x",
    "coproc ls", "function f { ls; }", "ls;; rm", "ls\rrm x", "ls\x00rm", "\u00a0rm x", "gіt log", "ls\u2028rm x\u2028;\u00a0y",
    "echo 'a", 'echo "a', "(ls", "ls)", "fi", "echo a\\\nb", "cat <<A <<B\nA\nB", "cat <<EOF\na\nEOF", "cat <<-'E'\nE", "cat <<'EOF'\nno end", "ls >", "\ufeffls",
    "for PATH in a; do ls; done", "export PATH=x", "exec >f; ls", "jobs -x rm", "ls >&1'$(rm x)'", 'ls "$\\\n(rm x)"', "ls $(\\\n(x))", "(\\\n(x))", "a" * 70_000,
]  # fmt: skip


def test_text_that_can_hide_a_command_is_doubtful() -> None:
    for text in DOUBTFUL:
        assert read_command(text).doubt, text
        assert "git log" not in commands_of(text)  # but a look-alike


def test_reason_of_a_here_document_names_the_operator() -> None:
    assert "not `<<-`" in read_command("cat <<-'E'\nE").doubt


def test_redirections_and_assignments_are_parsed() -> None:
    text = "LD_PRELOAD=./x.so make test > out.txt 2>&1 < in.txt && a=1 && ls &> b >> c >| d 2>/dev/null"
    reading = read_command(text)
    make, alone, ls = reading.commands
    assert [(name, value.text) for name, value in make.assignments] == [("LD_PRELOAD", "./x.so")]
    assert [word.text for word in make.writes] == ["out.txt"] and [w.text for w in make.reads] == ["in.txt"]
    assert alone.words == () and alone.assignments[0][0] == "a"
    assert [word.text for word in ls.writes] == ["b", "c", "d", "/dev/null"] and not reading.doubt


def test_wrapped_command_has_the_variables_and_arguments_of_its_wrapper() -> None:
    _, inner = read_command("env -u A LD_PRELOAD=x make").commands
    assert [name for name, _ in inner.assignments] == ["LD_PRELOAD"] and inner.name == "make"
    *_, rm = read_command("ls | xargs -n 1 rm -f").commands
    assert [word.text for word in rm.words[:2]] == ["rm", "-f"] and rm.words[-1].kind == "open"
    find, rm, ls = read_command("find . -name a -exec rm {} \\; -exec ls {} +").commands
    assert (find.name, rm.name, ls.name) == ("find", "rm", "ls") and find.role == "runs"
    outer, inside = read_command("sudo rm x").commands
    assert (outer.role, inside.role) == ("runs", "inside")


WORDS = ["a", "'b c'", '"d;e"', "f\\;g", "'#h'", "'$(no)'", "-n", "--x=1", '"\\$(no)"', "é", "'\n'"]
SIMPLE = st.builds(
    lambda name, words: " ".join([name, *words]),
    st.sampled_from(["s1", "s2", "s3"]),
    st.lists(st.sampled_from(WORDS), max_size=3),
)
FORMS = ["{}; {}", "{}\n{}", "{} && {}", "{} || {}", "{} | {}", "{} & {}", "( {} )\n{}", "{{ {}; }}; {}", "if {}; then {}; fi",
         "while {}; do {}; done", "for x in a b; do {}; done\n{}", "echo $( {}) \"$( {})\"",
         "{} # it's a comment\n{}", "{} \\\n; {}", "! s1\n{}\n{}"]  # fmt: skip
TEXTS = st.recursive(
    SIMPLE, lambda inner: st.builds(str.format, st.sampled_from(FORMS), inner, inner), max_leaves=6
)


@given(TEXTS)
@settings(max_examples=50)
def test_all_commands_of_a_generated_text_are_found(text: str) -> None:
    reading = read_command(text)
    assert reading.doubt == "", reading
    names = [command.name for command in reading.commands if command.name in {"s1", "s2", "s3"}]
    assert sorted(names) == sorted(re.findall("s[123]", text))


SCRAPS = st.sampled_from([*"'\"\\;|&$(){}<>`# \n\t", "s1", "<<E", "\nE\n"])


@given(st.text(max_size=60) | st.lists(SCRAPS, max_size=20).map("".join))
@settings(max_examples=80)
def test_any_text_can_be_parsed(text: str) -> None:
    assert isinstance(read_command(text), ParsedCommand)


def test_deep_and_long_texts_are_parsed_quickly() -> None:
    began = time.process_time()
    for piece in (
        "{ ", "$(a ", "if a; then ", "a=(", "a{", "eval ", "nice ", "a&&", "(", "`", "<<X\n", "case a in ", "f(){ ", "'",
    ):  # fmt: skip
        read_command(piece * (4_000 // len(piece)))
    assert time.process_time() - began < 2.0


PIECES = ["s1", "s2", "'", '"', "\\", "\n", ";", "|", "&", " ", "$(", ")", "`", "#", "<<E\n", "\nE\n", "<<'E'", "{ ", "; }", "(",
          "if ", "; then ", "; fi", "; do ", "; done", "for x in a b", "$x", "$", "${x:-$(s2)}", "$'", "<(", ">f", "<f", "2>&1", "<<<",
          "bash -c '", "eval ", "env ", "xargs ", "X=1 ", "*", "[ a ]", "time ", "s1() ", "\\\n", "\t", "é", "{s1,s2}", "command ",
          "\r", "\u00a0", "!", "a#b", "|&", ";;", "$[1]", "${", "}", "alias s1=s2\n", "a[$(s2)]=1", "-", "="]  # fmt: skip


def built(chance: random.Random, depth: int) -> str:
    """A valid shell text, into which random pieces are then inserted."""
    if depth <= 0 or chance.random() < 0.4:
        words = ["a", "'b c'", '"$x"', "*", "\\;", "'$(s2)'", '"$(s1 y)"', "> f", "2>&1"]
        name = chance.choice(["s1", "s2", "env X=1 s1"])
        return " ".join([name, *chance.choices(words, k=chance.randint(0, 3))])
    form = chance.choice([form for form in FORMS if "while" not in form])  # which may not end
    return form.format(built(chance, depth - 1), built(chance, depth - 1))


def check_against_bash(folder: Path, seed: int, count: int) -> int:
    """Run texts in bash with programs that record their calls. Returns the number of calls that were compared."""
    programs, cwd = folder / "bin", folder / "cwd"
    programs.mkdir()
    for name in ("s1", "s2", "diff", "echo"):
        script = f"#!/bin/sh\nprintf '%s\\037' '\036{name}' \"$@\" >> $LOG\n"  # in one write, so that calls do not mix
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    for name in ("env", "xargs", "bash", "timeout"):
        (programs / name).symlink_to(shutil.which(name) or "")
    chance, calls = random.Random(seed), 0
    for number in range(count):
        log = folder / f"log{number}"  # a new one, because programs may still run after a timeout
        text = built(chance, 2)
        for _ in range(chance.choice([0, 1, 1, 2])):
            at = chance.randint(0, len(text))
            text = text[:at] + chance.choice(PIECES) + text[at + chance.choice([0, 0, 1]) :]
        reading = read_command(text)
        if reading.doubt:
            continue
        shutil.rmtree(cwd, ignore_errors=True)
        cwd.mkdir()
        (cwd / "f").write_text("s2 from a file\n")
        log.write_text("")
        environment = {"PATH": os.fspath(programs), "LC_ALL": "C.UTF-8", "LOG": os.fspath(log)}
        with subprocess.Popen(
            ["/bin/bash", "-c", text],
            cwd=cwd, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as bash:  # fmt: skip
            try:
                bash.communicate(timeout=2)
            except subprocess.TimeoutExpired:
                os.killpg(bash.pid, signal.SIGKILL)
        for call in log.read_text(errors="surrogateescape").split("\036")[1:]:
            name, *args = call.split("\037")[:-1]
            if name in {"s1", "s2"}:
                calls += 1
                expected = [command for command in reading.commands if _may_be(command.words, name, args)]
                assert expected, (text, name, args)
    return calls


def _may_be(words: Sequence[Word], name: str, args: list[str]) -> bool:
    if not words or words[0].text != name:
        return False
    for at, word in enumerate(words[1:]):
        if not word.literal:
            return True
        if at >= len(args) or args[at] != word.text:
            return False
    return len(words) == len(args) + 1


def test_bash_runs_only_parsed_commands(tmp_path: Path) -> None:
    assert check_against_bash(tmp_path, 7, 50) > 20


@pytest.mark.soak
def test_bash_runs_only_parsed_commands_soak(tmp_path: Path) -> None:
    assert check_against_bash(tmp_path, random.randrange(1 << 30), 4_000) > 1_000
