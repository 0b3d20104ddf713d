import inspect
import json

from desk.client import Desk

urls = []


def answer(method: str, url: str, headers: dict[str, str], data: bytes | None) -> tuple[int, bytes]:
    urls.append(url.removeprefix("https://desk.example"))
    return 200, json.dumps({"items": [{"number": 1}], "page": 1, "pages": 2}).encode()


desk = Desk("https://desk.example", "key", answer)
desk.list_invoices()
desk.list_invoices(status="paid")
desk.list_invoices(customer=7, year=2024, status="sent", page=3)
list(desk.all(desk.list_invoices, status="draft"))
desk.list_payments(invoice=3)
desk.list_subscriptions(status="active")
assert urls == [
    "/invoices?page=1",
    "/invoices?page=1&status=paid",
    "/invoices?customer=7&page=3&status=sent&year=2024",
    "/invoices?page=1&status=draft",
    "/invoices?page=2&status=draft",
    "/payments?invoice=3&page=1",
    "/subscriptions?page=1&status=active",
], urls
kinds = {parameter.kind for name, parameter in inspect.signature(desk.list_invoices).parameters.items()}
assert kinds == {inspect.Parameter.KEYWORD_ONLY}
