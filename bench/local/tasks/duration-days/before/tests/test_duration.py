import unittest

from src.duration import format_duration, parse_duration


class Durations(unittest.TestCase):
    def test_hours_minutes_seconds(self):
        self.assertEqual(parse_duration("1h30m"), 5400)
        self.assertEqual(parse_duration(" 90S "), 90)

    def test_days(self):
        self.assertEqual(parse_duration("2d"), 172800)
        self.assertEqual(parse_duration("1d12h"), 129600)

    def test_no_duration(self):
        for text in ("", "soon", "5"):
            with self.assertRaises(ValueError):
                parse_duration(text)

    def test_format(self):
        self.assertEqual(format_duration(5400), "1h30m")
        self.assertEqual(format_duration(0), "0s")


if __name__ == "__main__":
    unittest.main()
