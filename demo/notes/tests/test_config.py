import tempfile
import unittest
from pathlib import Path

from src.config import DEFAULTS, address, load_config


class LoadConfig(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "config.json"

    def test_the_file_overrides_the_defaults(self):
        self.path.write_text('{"port": 9000}', encoding="utf-8")
        config = load_config(self.path)
        self.assertEqual(config["port"], 9000)
        self.assertEqual(config["host"], "127.0.0.1")

    def test_a_missing_file_means_the_defaults(self):
        self.assertEqual(load_config(self.path), DEFAULTS)

    def test_the_defaults_are_not_handed_out_to_be_changed(self):
        load_config(self.path)["port"] = 1
        wanted = "load_config must return a copy of DEFAULTS when the file is missing, not DEFAULTS itself"
        self.assertEqual(DEFAULTS["port"], 8080, wanted)

    def test_a_broken_file_is_still_an_error(self):
        self.path.write_text("{", encoding="utf-8")
        with self.assertRaises(ValueError):
            load_config(self.path)

    def test_address(self):
        self.assertEqual(address(DEFAULTS), "127.0.0.1:8080")


if __name__ == "__main__":
    unittest.main()
