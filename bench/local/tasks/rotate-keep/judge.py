import subprocess
import tempfile
from pathlib import Path


def rotate(*args: str, count: int) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "x y.log")
        for number in range(count):
            log.write_text(str(number))
            subprocess.run(["sh", "rotate.sh", str(log), *args], check=True)
        return {path.name: path.read_text() for path in Path(folder).iterdir()}


def expected(keep: int, count: int) -> dict[str, str]:
    old = {f"x y.log.{n}": str(count - n) for n in range(1, min(keep, count) + 1)}
    return {"x y.log": "", **old}


for keep in (1, 2, 7):
    assert rotate(str(keep), count=9) == expected(keep, 9), keep
assert rotate(count=7) == expected(5, 7)
missing = subprocess.run(["sh", "rotate.sh", "/nowhere/x.log", "3"], capture_output=True, check=False)
assert missing.returncode == 1 and b"no file" in missing.stderr
