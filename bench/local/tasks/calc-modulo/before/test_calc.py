import unittest
from fractions import Fraction

from calc import CalcError, Calculator, shown


class Test(unittest.TestCase):
    def run_(self, text):
        return Calculator().run(text)

    def test_old_operators(self):
        self.assertEqual(self.run_("1 + 2 * 3 - 4 / 2"), 5)
        self.assertEqual(self.run_("-2 ^ 2"), -4)

    def test_modulo(self):
        self.assertEqual(self.run_("7 % 3"), 1)
        self.assertEqual(self.run_("1 + 7 % 4 * 2"), 7)

    def test_modulo_by_zero(self):
        with self.assertRaisesRegex(CalcError, "division by zero"):
            self.run_("1 % 0")

    def test_errors(self):
        for text in ("", "1 +", "1 / 0", "2 $ 3"):
            with self.assertRaises(CalcError):
                self.run_(text)

    def test_shown(self):
        self.assertEqual(shown(Fraction(1, 4)), "0.25")
