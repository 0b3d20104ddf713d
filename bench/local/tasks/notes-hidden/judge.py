import os
import subprocess
import tempfile
from pathlib import Path


def notes(*args: str, text: str = "") -> tuple[int, str]:
    done = subprocess.run(["sh", "notes", *args], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


with tempfile.TemporaryDirectory() as folder:
    os.environ["NOTES"] = folder
    assert notes("list") == (0, "")
    assert notes("add", "_one", text="hidden tea\n")[0] == 0
    assert notes("list") == (0, "")
    assert notes("add", "a_b", text="tea\n")[0] == 0
    assert notes("add", "z z", text="more\ntea\n")[0] == 0
    assert notes("list") == (0, "a_b                  tea\nz z                  more\n")
    assert notes() == notes("list")
    assert notes("find", "tea") == (0, "_one\na_b\nz z\n")
    assert notes("show", "_one") == (0, "hidden tea\n")
    Path(folder, "a_b.txt").unlink()
    Path(folder, "z z.txt").unlink()
    assert notes("list") == (0, "")
