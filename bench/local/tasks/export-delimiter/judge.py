import contextlib
import io
import re
import tempfile
from pathlib import Path

import ledger


def run(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert ledger.main([book, *arguments]) == 0
    return out.getvalue()


with tempfile.TemporaryDirectory() as folder:
    book = str(Path(folder, "b.csv"))
    run("add", "2024-05-01", "rent", "-800", "a;b")
    run("add", "2024-05-02", "food", "2,50", "c,d")
    assert Path(book).read_bytes() == b"2024-05-01,rent,-800,a;b\r\n2024-05-02,food,2.50,\"c,d\"\r\n"
    assert run("export", "--no-header") == '2024-05-01,rent,-800,a;b\n2024-05-02,food,2.50,"c,d"\n'
    wanted = 'account;text\nrent;"a;b"\nfood;c,d\n'
    assert run("export", "--delimiter", ";", "--columns", "account,text") == wanted
    assert run("export", "--delimiter=\t", "--no-header", "--columns", "account,amount") == "rent\t-800\nfood\t2.50\n"
    assert run("balance", "--until", "2024-05-01").split() == ["rent", "-800", "-800"]
rows = [line for line in Path("docs/export.md").read_text().splitlines() if "--delimiter" in line]
assert len(rows) == 1 and re.fullmatch(r"\| `--delimiter( [A-Z]+)?` *\| [^|]+\|", rows[0]), rows
