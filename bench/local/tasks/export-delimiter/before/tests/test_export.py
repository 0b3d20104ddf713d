import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import ledger


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.book = str(Path(folder.name, "book.csv"))
        ledger.main([self.book, "add", "2024-05-01", "rent", "800,00", "May,", "flat"])

    def export(self, *options):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(ledger.main([self.book, "export", *options]), 0)
        return out.getvalue()

    def test_default(self):
        self.assertEqual(self.export(), 'date,account,amount,text\n2024-05-01,rent,800.00,"May, flat"\n')

    def test_delimiter(self):
        self.assertEqual(
            self.export("--delimiter", ";"), "date;account;amount;text\n2024-05-01;rent;800.00;May, flat\n"
        )

    def test_documented(self):
        table = [line for line in Path("docs/export.md").read_text().splitlines() if line.startswith("| `--")]
        self.assertTrue(any("--delimiter" in line for line in table), "docs/export.md: no --delimiter in the table")
