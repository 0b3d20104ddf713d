import json
import unittest

from desk.client import Desk


class Client(unittest.TestCase):
    def setUp(self):
        self.urls = []
        self.desk = Desk("https://desk.example/api/", "key", self.answer)

    def answer(self, method, url, headers, data):
        self.urls.append(url.removeprefix("https://desk.example/api"))
        return 200, json.dumps({"items": [], "page": 1, "pages": 1}).encode()

    def test_invoices_by_status(self):
        self.desk.list_invoices(status="paid")
        self.desk.list_invoices(customer=7, status="sent", page=2)
        self.assertEqual(self.urls, ["/invoices?page=1&status=paid", "/invoices?customer=7&page=2&status=sent"])

    def test_invoices_without_status(self):
        self.desk.list_invoices(year=2024)
        self.assertEqual(self.urls, ["/invoices?page=1&year=2024"])

    def test_offers(self):
        self.desk.list_offers(status="draft")
        self.assertEqual(self.urls, ["/offers?page=1&status=draft"])
