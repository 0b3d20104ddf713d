import unittest

from inventory import Article, Inventory, Report


class Test(unittest.TestCase):
    def setUp(self):
        self.inventory = Inventory([Article("tea", 12, 350), Article("Cup", 2, 900), Article("milk", 0, 120)])

    def test_low(self):
        self.assertEqual(self.inventory.low(3), ["Cup", "milk"])
        self.assertEqual(self.inventory.low(2), ["milk"])

    def test_value(self):
        self.assertEqual(self.inventory.value(), 6000)

    def test_empty(self):
        self.assertEqual(self.inventory.empty(), ["milk"])

    def test_lines(self):
        again = Inventory.from_lines(self.inventory.to_lines())
        self.assertEqual(again.to_lines(), self.inventory.to_lines())

    def test_report(self):
        self.assertTrue(Report(self.inventory).low(6))
