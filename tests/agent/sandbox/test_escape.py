"""Try to escape from each sandbox that works on this machine; see `attempts`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.agent.sandbox.confine import Sandbox, unconfined_command
from repoagent.agent.sandbox.policy import scrub_environment

from . import attempts
from .targets import SECRET, WORKING, World, label, params

best_sandbox = pytest.mark.parametrize("sandbox", params())
every_sandbox = pytest.mark.parametrize("sandbox", WORKING, ids=label)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are those of Linux")

# Attempts that fail even without a sandbox, because of the machine or if we are not root.
_OF_ROOT = {"write_etc", "write_sysctl", "read_disk", "make_device", "raw", "packet", "mount_over"}
_OF_MACHINE = {"new_namespaces", "clone_namespaces", "io_uring", "tcp6", "trace_other"}
# Attempts that Landlock alone cannot prevent, which it reports in `limits_of`.
_WITHOUT_MOUNTS = {"change_mode_outside"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def test_best_sandbox_works_where_namespaces_do() -> None:
    """A fault of it would only make these tests use the next one."""
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no namespaces here")
    assert Sandbox() in WORKING


@every_sandbox
def test_no_attempt_escapes(sandbox: Sandbox, world: World) -> None:
    tried = [name for name in attempts.ATTEMPTS if not _said(sandbox, name)]
    world.run(sandbox.wrap(world.script(tried), world.policy), tried)
    assert [name for name in tried if world.escaped(name)] == []


def test_each_attempt_works_without_a_sandbox(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    failed = attempts.ATTEMPTS
    for number in range(4):  # together as long as possible: some attempts interfere with others
        (tmp_path / str(number)).mkdir()
        with World(tmp_path / str(number)) as world:
            (world.top / ".repoagent").mkdir()
            world.run(world.script(failed), failed)
            failed = [name for name in failed if not world.escaped(name)]
    assert set(failed) <= _OF_MACHINE | (_OF_ROOT if os.geteuid() else {"read_disk"})


@pytest.mark.soak
@every_sandbox
@pytest.mark.parametrize("name", attempts.ATTEMPTS)
def test_single_attempt_does_not_escape(sandbox: Sandbox, name: str, world: World) -> None:
    world.run(sandbox.wrap(world.script([name]), world.policy), [name])
    assert world.escaped(name) == _said(sandbox, name)


def _said(sandbox: Sandbox, name: str) -> bool:
    """Whether the attempt is known to work, and reported."""
    return not sandbox.mounting and name in _WITHOUT_MOUNTS


@every_sandbox
def test_other_programs_are_out_of_reach_with_network(sandbox: Sandbox, world: World) -> None:
    policy = replace(world.policy, network=True)
    tried = ["tcp", "udp", "unix_socket", "abstract_socket", "raw", "packet", "kill_other"]
    world.run(sandbox.wrap(world.script(tried), policy), tried)
    limits = " ".join(sandbox.limits_of(policy))
    expected = {"tcp", "udp"} | ({"abstract_socket"} if "abstract" in limits else set())
    expected |= {"kill_other"} if "Signals" in limits else set()
    assert {name for name in tried if world.escaped(name)} == expected


def output(argv: Sequence[str], cwd: Path, **options: object) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, **options)
    return str(done.stdout)


@best_sandbox
def test_current_folder_is_hidden(sandbox: Sandbox, world: World) -> None:
    folder = world.home / ".ssh"
    assert output(["cat", "id"], folder) == SECRET
    assert output(sandbox.wrap(["cat", "id"], world.policy), folder) == ""


@best_sandbox
def test_descriptors_are_not_inherited(sandbox: Sandbox, world: World) -> None:
    with (world.home / ".ssh" / "id").open() as secret:
        number = secret.fileno()
        script = f"import os; print(os.read({number}, 100).decode(), end='')"
        argv = [sys.executable, "-I", "-S", "-c", script]
        for tried, expected in ((argv, SECRET), (sandbox.wrap(argv, world.policy), "")):
            secret.seek(0)
            assert output(tried, world.top, pass_fds=[number]) == expected


@best_sandbox
def test_command_kills_every_process_it_can(sandbox: Sandbox, world: World) -> None:
    """Its parents outlive it, and its exit code is reported. Never run this without a sandbox."""
    parents = "kill -KILL $PPID; for i in $(seq 2 6); do kill -KILL $(($PPID - $i)); done"
    argv = sandbox.wrap(["sh", "-c", f"{parents}; kill -KILL 1; exit 4"], world.policy)
    assert subprocess.run(argv, cwd=world.top, capture_output=True, check=False).returncode == 4


@best_sandbox
def test_nested_sandbox_widens_nothing(sandbox: Sandbox, world: World) -> None:
    script = textwrap.dedent("""
        import subprocess, sys
        from pathlib import Path
        from repoagent.agent.sandbox.confine import find_sandbox
        from repoagent.agent.sandbox.policy import Policy
        top, outside = map(Path, sys.argv[1:])
        inner = find_sandbox()
        print(inner and inner.name, flush=True)
        policy = Policy(top / "src", top / "src/scratch", also_write=(outside, top / ".git"))
        argv = inner.wrap(["touch", outside / "new", top / ".git/new", top / "src/new"], policy)
        subprocess.run(argv, stderr=subprocess.DEVNULL)
    """)
    package = Path(attempts.__file__).parents[3]
    policy = replace(world.policy, also_read=(*world.policy.also_read, package))
    argv = sandbox.wrap([sys.executable, "-c", script, str(world.top), str(world.outside)], policy)
    env = scrub_environment(os.environ, policy)
    done = subprocess.run(argv, cwd=package, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("landlock\n", "")
    assert (world.top / "src/new").exists()
    assert not (world.outside / "new").exists() and not (world.top / ".git/new").exists()


@best_sandbox
def test_command_cannot_type_into_the_terminal(sandbox: Sandbox, world: World) -> None:
    """TIOCSTI would let a command type into the shell that started us."""
    for request in (0x5412, 1 << 32 | 0x5412):
        script = f"import fcntl; fcntl.ioctl(0, {request}, b'x'); print('typed')"
        ours, theirs = os.openpty()
        argv = sandbox.wrap([sys.executable, "-I", "-c", script], world.policy)
        assert output(argv, world.top, stdin=theirs) == ""
        os.close(ours)
        os.close(theirs)


@best_sandbox
def test_read_only_name_that_is_a_link(sandbox: Sandbox, world: World) -> None:
    """A link cannot be covered: then no file can be created at the top, and that is reported."""
    (world.top / ".git").rename(world.top / "lib" / "git")
    (world.top / ".git").symlink_to("lib/git")
    script = "rm .git; mkdir .git; touch .git/config new src/new; echo evil >lib/git/config"
    output(sandbox.wrap(["sh", "-c", script], world.policy), world.top)
    assert (world.top / ".git").is_symlink() and (world.top / "src" / "new").exists()
    assert (world.top / ".git" / "config").read_text() == "[core]\n"
    assert "top of the work tree" in " ".join(sandbox.limits_of(world.policy))


@best_sandbox
def test_placeholder_of_a_missing_folder_is_removed(sandbox: Sandbox, world: World) -> None:
    """Even if two commands run at once, and the first one ends first."""
    make = "mkdir -p .repoagent; echo changed >.repoagent/config.toml"
    slow = subprocess.Popen(
        sandbox.wrap(["sh", "-c", f"echo; read line; {make}"], world.policy),
        cwd=world.top, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert slow.stdout
    slow.stdout.readline()
    output(sandbox.wrap(["sh", "-c", make], world.policy), world.top)
    slow.communicate(b"go\n")
    assert not (world.top / ".repoagent").exists()


@best_sandbox
def test_links_in_the_scratch_folder(sandbox: Sandbox, world: World) -> None:
    """The next command cannot use what an earlier one leaves there."""
    script = 'for name in tmp empty cache; do ln -s "$1" "$2/$name"; done'
    names = [str(world.home / ".ssh" / "id"), str(world.base / "scratch")]
    planted = sandbox.wrap(["sh", "-c", script, "sh", *names], world.policy)
    assert subprocess.run(planted, cwd=world.top, check=False).returncode == 0
    tried = ["read_hidden", "read_hidden_file", "write_tmp"]
    world.run(sandbox.wrap(world.script(tried), world.policy), tried)
    assert [name for name in tried if world.escaped(name)] == []
    assert (world.home / ".ssh" / "id").read_text() == SECRET


def test_unconfined_command_is_not_confined(world: World) -> None:
    world.run(unconfined_command(world.script(["write_outside"]), world.policy), ["write_outside"])
    assert world.escaped("write_outside")
