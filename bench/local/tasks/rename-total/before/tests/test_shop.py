import unittest

from shop.order import Order
from shop.report import details, overview


class Shop(unittest.TestCase):
    def setUp(self):
        self.order = Order(7, "Ann", shipping=500).add("tea", 350, 2).add("cup", 900)

    def test_net_total(self):
        self.assertEqual(self.order.net_total(), 2100)
        self.assertFalse(hasattr(self.order, "total"), "the old name is still there")

    def test_tax(self):
        self.assertEqual(self.order.tax(), 399)
        self.assertEqual(self.order.gross_total(), 2499)

    def test_overview(self):
        self.assertIn("21.00", overview([self.order]))

    def test_details(self):
        self.assertIn("7.00", details(self.order))
