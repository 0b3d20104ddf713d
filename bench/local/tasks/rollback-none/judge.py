import os
import subprocess
import tempfile
from pathlib import Path


def deploy(*args: str, name: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "RELEASE_NAME": name} if name else None
    return subprocess.run(
        ["sh", "deploy.sh", "-r", str(root), *args], capture_output=True, text=True, check=False, env=env
    )


with tempfile.TemporaryDirectory() as folder:
    root = Path(folder, "app")
    deploy("init")
    (root / "shared" / "uploads").mkdir()
    for release in ("1", "2", "3"):
        assert deploy("push", "tests", name=release).stdout == f"{release} is live\n"
    for before in ("2", "1"):
        done = deploy("rollback")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{before} is live\n", ""), done
    done = deploy("rollback")
    assert done.returncode == 1 and done.stdout == "" and "no earlier release" in done.stderr, done
    assert os.readlink(root / "current") == "releases/1"
    assert sorted(path.name for path in root.iterdir()) == ["current", "releases", "shared"]
    done = deploy("-n", "rollback")
    assert done.returncode == 1 and "no earlier release" in done.stderr, done
    assert deploy("list").stdout == "* 1\n  2\n  3\n"
    assert deploy("switch", "3").returncode == 0
    assert deploy("-k", "1", "clean").returncode == 0
    assert deploy("list").stdout == "* 3\n"
    assert deploy("rollback").returncode == 1
