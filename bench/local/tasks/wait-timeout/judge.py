import subprocess


def wait(*args: str) -> tuple[int, str, str]:
    done = subprocess.run(["bin/wait-for", *args], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


assert wait("nothing", "0") == (3, "", "wait-for: nothing did not come within 0 s\n")
assert wait("bin", "0") == (0, "bin is there\n", "")
assert wait("bin", "x") == (1, "wait-for: not a number: x\n", "")  # not a time-out: as it was
assert wait() == (2, "", "usage: wait-for FILE [SECONDS]\n")
assert wait("a", "1", "b")[0] == 2
