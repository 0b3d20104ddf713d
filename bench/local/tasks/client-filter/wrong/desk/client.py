"""Client of the Desk service: customers, projects, offers, invoices and all the rest.

    desk = Desk("https://desk.example.com/api", key)
    for invoice in desk.all(desk.list_invoices, customer=7):
        print(invoice["number"])

Every method returns what the service sends, as dictionaries and lists. Methods that list something return one page:
{"items": [...], "page": 1, "pages": 4}. `transport` is what makes the calls; tests hand in their own.
"""

from __future__ import annotations

import datetime
import json
import urllib.error
import urllib.parse
import urllib.request


class DeskError(Exception):
    """The service said no. `status` is that of the answer, `code` its own name for the reason."""

    def __init__(self, status, code, message):
        super().__init__(f"{message} ({status} {code})")
        self.status = status
        self.code = code


class NotFound(DeskError):
    """There is no such thing, or it is not yours."""


def _day(value):
    """A day as the service wants it; a text is taken as it is."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def _plain(body):
    """`body` without what is None, days as text."""
    return {name: _day(value) for name, value in body.items() if value is not None}


def urllib_transport(method, url, headers, data, timeout=30):
    """One call through urllib: (status, bytes)."""
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Desk:
    """All calls of the service."""

    def __init__(self, base, key, transport=urllib_transport):
        self.base = base.rstrip("/")
        self.key = key
        self.transport = transport

    # ---- how calls are made ----

    def _call(self, method, path, query=None, body=None):
        url = self.base + path
        if query:
            url += "?" + urllib.parse.urlencode(sorted(query.items()))
        headers = {"authorization": f"Bearer {self.key}", "accept": "application/json"}
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body, sort_keys=True).encode()
        status, answer = self.transport(method, url, headers, data)
        if status >= 400:
            raise self._error(status, answer)
        return answer

    def _error(self, status, answer):
        try:
            said = json.loads(answer)
        except ValueError:   # a proxy, not the service
            said = {}
        kind = NotFound if status == 404 else DeskError
        return kind(status, said.get("code", "unknown"), said.get("message", "no message"))

    def _get(self, path, query=None):
        return json.loads(self._call("GET", path, query))

    def _get_bytes(self, path):
        return self._call("GET", path)

    def _post(self, path, body=None):
        return json.loads(self._call("POST", path, body=body or {}))

    def _patch(self, path, body):
        return json.loads(self._call("PATCH", path, body=body))

    def _delete(self, path):
        self._call("DELETE", path)

    def all(self, method, **filters):
        """The items of all pages of a method that lists something."""
        page = 1
        while True:
            found = method(page=page, **filters)
            yield from found["items"]
            if page >= found["pages"]:
                return
            page += 1

    # ---- customers ----

    def list_customers(self, *, name=None, country=None, page=1):
        """One page of the customers, by name.

        name: only those whose name begins with this.
        country: only those of this country, two letters.
        """
        query = {"page": page}
        if name is not None:
            query["name"] = name
        if country is not None:
            query["country"] = country
        return self._get("/customers", query)

    def get_customer(self, id):
        return self._get(f"/customers/{id}")

    def create_customer(self, name, email, country, **others):
        """Make a customer and return it."""
        body = { "name": name, "email": email, "country": country, **others }
        return self._post("/customers", _plain(body))

    def update_customer(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_customer: nothing to change")
        return self._patch(f"/customers/{id}", _plain(changes))

    def delete_customer(self, id):
        """Remove a customer for good."""
        self._delete(f"/customers/{id}")

    def find_customer(self, name):
        """The one customer of this name, or None. Raises LookupError when there are several."""
        wanted = name.casefold()
        found = [
            customer
            for customer in self.all(self.list_customers)
            if customer["name"].casefold() == wanted
        ]
        if len(found) > 1:
            raise LookupError(f"there are {len(found)} customers of this name")
        return found[0] if found else None

    # ---- contacts ----

    def list_contacts(self, *, customer=None, page=1):
        """One page of the contacts, by name.

        customer: only those of this customer.
        """
        query = {"page": page}
        if customer is not None:
            query["customer"] = customer
        return self._get("/contacts", query)

    def get_contact(self, id):
        return self._get(f"/contacts/{id}")

    def create_contact(self, customer, name, phone, **others):
        """Make a contact and return it."""
        body = { "customer": customer, "name": name, "phone": phone, **others }
        return self._post("/contacts", _plain(body))

    def update_contact(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_contact: nothing to change")
        return self._patch(f"/contacts/{id}", _plain(changes))

    def delete_contact(self, id):
        """Remove a contact for good."""
        self._delete(f"/contacts/{id}")

    def find_contact(self, name):
        """The one contact of this name, or None. Raises LookupError when there are several."""
        wanted = name.casefold()
        found = [
            contact
            for contact in self.all(self.list_contacts)
            if contact["name"].casefold() == wanted
        ]
        if len(found) > 1:
            raise LookupError(f"there are {len(found)} contacts of this name")
        return found[0] if found else None

    # ---- products ----

    def list_products(self, *, tag=None, page=1):
        """One page of the products, by title.

        tag: only those with this tag.
        """
        query = {"page": page}
        if tag is not None:
            query["tag"] = tag
        return self._get("/products", query)

    def get_product(self, id):
        return self._get(f"/products/{id}")

    def create_product(self, title, price, **others):
        """Make a product and return it."""
        body = { "title": title, "price": price, **others }
        return self._post("/products", _plain(body))

    def update_product(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_product: nothing to change")
        return self._patch(f"/products/{id}", _plain(changes))

    def delete_product(self, id):
        """Remove a product for good."""
        self._delete(f"/products/{id}")

    def find_product(self, title):
        """The one product of this title, or None. Raises LookupError when there are several."""
        wanted = title.casefold()
        found = [
            product
            for product in self.all(self.list_products)
            if product["title"].casefold() == wanted
        ]
        if len(found) > 1:
            raise LookupError(f"there are {len(found)} products of this title")
        return found[0] if found else None

    # ---- projects ----

    def list_projects(self, *, customer=None, status=None, page=1):
        """One page of the projects, by title.

        customer: only those of this customer.
        status: open, paused or closed.
        """
        query = {"page": page}
        if customer is not None:
            query["customer"] = customer
        if status is not None:
            query["status"] = status
        return self._get("/projects", query)

    def get_project(self, id):
        return self._get(f"/projects/{id}")

    def create_project(self, customer, title, **others):
        """Make a project and return it."""
        body = { "customer": customer, "title": title, **others }
        return self._post("/projects", _plain(body))

    def update_project(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_project: nothing to change")
        return self._patch(f"/projects/{id}", _plain(changes))

    def delete_project(self, id):
        """Remove a project for good."""
        self._delete(f"/projects/{id}")

    def close_project(self, id):
        """Close a project; its tasks stay as they are."""
        return self._post(f"/projects/{id}/close")

    # ---- tasks ----

    def list_tasks(self, *, project=None, assignee=None, page=1):
        """One page of the tasks, by day they are due.

        project: only those of this project.
        assignee: only those that this person is to do.
        """
        query = {"page": page}
        if project is not None:
            query["project"] = project
        if assignee is not None:
            query["assignee"] = assignee
        return self._get("/tasks", query)

    def get_task(self, id):
        return self._get(f"/tasks/{id}")

    def create_task(self, project, title, due, **others):
        """Make a task and return it."""
        body = { "project": project, "title": title, "due": due, **others }
        return self._post("/tasks", _plain(body))

    def update_task(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_task: nothing to change")
        return self._patch(f"/tasks/{id}", _plain(changes))

    def delete_task(self, id):
        """Remove a task for good."""
        self._delete(f"/tasks/{id}")

    def finish_task(self, id, *, when=None):
        """Mark a task as done, now or at `when`."""
        body = {}
        if when is not None:
            body["when"] = _day(when)
        return self._post(f"/tasks/{id}/finish", body)

    # ---- timesheets ----

    def list_timesheets(self, *, person=None, week=None, page=1):
        """One page of the timesheets, by week.

        person: only those of this person.
        week: only those of this week, as in 2024-W07.
        """
        query = {"page": page}
        if person is not None:
            query["person"] = person
        if week is not None:
            query["week"] = week
        return self._get("/timesheets", query)

    def get_timesheet(self, id):
        return self._get(f"/timesheets/{id}")

    def create_timesheet(self, person, week, **others):
        """Make a timesheet and return it."""
        body = { "person": person, "week": week, **others }
        return self._post("/timesheets", _plain(body))

    def update_timesheet(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_timesheet: nothing to change")
        return self._patch(f"/timesheets/{id}", _plain(changes))

    def delete_timesheet(self, id):
        """Remove a timesheet for good."""
        self._delete(f"/timesheets/{id}")

    # ---- expenses ----

    def list_expenses(self, *, person=None, status=None, page=1):
        """One page of the expenses, by day.

        person: only those of this person.
        status: filed, approved or refused.
        """
        query = {"page": page}
        if person is not None:
            query["person"] = person
        if status is not None:
            query["status"] = status
        return self._get("/expenses", query)

    def get_expense(self, id):
        return self._get(f"/expenses/{id}")

    def create_expense(self, person, amount, day, **others):
        """Make an expense and return it."""
        body = { "person": person, "amount": amount, "day": day, **others }
        return self._post("/expenses", _plain(body))

    def update_expense(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_expense: nothing to change")
        return self._patch(f"/expenses/{id}", _plain(changes))

    def delete_expense(self, id):
        """Remove an expense for good."""
        self._delete(f"/expenses/{id}")

    def approve_expense(self, id):
        return self._post(f"/expenses/{id}/approve")

    def refuse_expense(self, id, reason):
        return self._post(f"/expenses/{id}/refuse", {"reason": reason})

    # ---- offers ----

    def list_offers(self, *, customer=None, status=None, page=1):
        """One page of the offers, by number.

        customer: only those of this customer.
        status: draft, sent, accepted or refused.
        """
        query = {"page": page}
        if customer is not None:
            query["customer"] = customer
        if status is not None:
            query["status"] = status
        return self._get("/offers", query)

    def get_offer(self, id):
        return self._get(f"/offers/{id}")

    def create_offer(self, customer, positions, **others):
        """Make an offer and return it."""
        body = { "customer": customer, "positions": positions, **others }
        return self._post("/offers", _plain(body))

    def update_offer(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_offer: nothing to change")
        return self._patch(f"/offers/{id}", _plain(changes))

    def delete_offer(self, id):
        """Remove an offer for good."""
        self._delete(f"/offers/{id}")

    def send_offer(self, id, to):
        """Send an offer by mail. What was sent can't be changed any more."""
        return self._post(f"/offers/{id}/send", {"to": to})

    def offer_pdf(self, id):
        """The bytes of the PDF."""
        return self._get_bytes(f"/offers/{id}.pdf")

    # ---- invoices ----

    def list_invoices(self, *, customer=None, year=None, status='draft', page=1):
        """One page of the invoices, by number.

        customer: only those of this customer.
        year: only those of this year.
        """
        query = {"page": page}
        if customer is not None:
            query["customer"] = customer
        if year is not None:
            query["year"] = year
        return self._get("/invoices", query)

    def get_invoice(self, id):
        return self._get(f"/invoices/{id}")

    def create_invoice(self, customer, positions, due, **others):
        """Make an invoice and return it."""
        body = { "customer": customer, "positions": positions, "due": due, **others }
        return self._post("/invoices", _plain(body))

    def update_invoice(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_invoice: nothing to change")
        return self._patch(f"/invoices/{id}", _plain(changes))

    # There is no delete_invoice: the law wants them kept. See cancel_invoice.

    def send_invoice(self, id, to):
        """Send an invoice by mail. What was sent can't be changed any more."""
        return self._post(f"/invoices/{id}/send", {"to": to})

    def cancel_invoice(self, id, reason):
        """Cancel an invoice that was sent; the answer is the credit note."""
        return self._post(f"/invoices/{id}/cancel", {"reason": reason})

    def invoice_pdf(self, id):
        """The bytes of the PDF."""
        return self._get_bytes(f"/invoices/{id}.pdf")

    # ---- reminders ----

    def list_reminders(self, *, invoice=None, level=None, page=1):
        """One page of the reminders, by day.

        invoice: only those for this invoice.
        level: only those of this level, 1 to 3.
        """
        query = {"page": page}
        if invoice is not None:
            query["invoice"] = invoice
        if level is not None:
            query["level"] = level
        return self._get("/reminders", query)

    def get_reminder(self, id):
        return self._get(f"/reminders/{id}")

    def create_reminder(self, invoice, level, **others):
        """Make a reminder and return it."""
        body = { "invoice": invoice, "level": level, **others }
        return self._post("/reminders", _plain(body))

    def update_reminder(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_reminder: nothing to change")
        return self._patch(f"/reminders/{id}", _plain(changes))

    def delete_reminder(self, id):
        """Remove a reminder for good."""
        self._delete(f"/reminders/{id}")

    # ---- payments ----

    def list_payments(self, *, invoice=None, since=None, page=1):
        """One page of the payments, by day.

        invoice: only those for this invoice.
        since: only those of this day or later.
        """
        query = {"page": page}
        if invoice is not None:
            query["invoice"] = invoice
        if since is not None:
            query["since"] = _day(since)
        return self._get("/payments", query)

    def get_payment(self, id):
        return self._get(f"/payments/{id}")

    def create_payment(self, invoice, amount, day, **others):
        """Make a payment and return it."""
        body = { "invoice": invoice, "amount": amount, "day": day, **others }
        return self._post("/payments", _plain(body))

    def update_payment(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_payment: nothing to change")
        return self._patch(f"/payments/{id}", _plain(changes))

    def delete_payment(self, id):
        """Remove a payment for good."""
        self._delete(f"/payments/{id}")

    # ---- subscriptions ----

    def list_subscriptions(self, *, customer=None, status=None, page=1):
        """One page of the subscriptions, by start.

        customer: only those of this customer.
        status: active, ending or ended.
        """
        query = {"page": page}
        if customer is not None:
            query["customer"] = customer
        if status is not None:
            query["status"] = status
        return self._get("/subscriptions", query)

    def get_subscription(self, id):
        return self._get(f"/subscriptions/{id}")

    def create_subscription(self, customer, product, start, **others):
        """Make a subscription and return it."""
        body = { "customer": customer, "product": product, "start": start, **others }
        return self._post("/subscriptions", _plain(body))

    def update_subscription(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_subscription: nothing to change")
        return self._patch(f"/subscriptions/{id}", _plain(changes))

    def delete_subscription(self, id):
        """Remove a subscription for good."""
        self._delete(f"/subscriptions/{id}")

    def end_subscription(self, id, *, when=None):
        """End a subscription, at the end of its period or at `when`."""
        body = {}
        if when is not None:
            body["when"] = _day(when)
        return self._post(f"/subscriptions/{id}/end", body)

    # ---- suppliers ----

    def list_suppliers(self, *, name=None, page=1):
        """One page of the suppliers, by name.

        name: only those whose name begins with this.
        """
        query = {"page": page}
        if name is not None:
            query["name"] = name
        return self._get("/suppliers", query)

    def get_supplier(self, id):
        return self._get(f"/suppliers/{id}")

    def create_supplier(self, name, email, **others):
        """Make a supplier and return it."""
        body = { "name": name, "email": email, **others }
        return self._post("/suppliers", _plain(body))

    def update_supplier(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_supplier: nothing to change")
        return self._patch(f"/suppliers/{id}", _plain(changes))

    def delete_supplier(self, id):
        """Remove a supplier for good."""
        self._delete(f"/suppliers/{id}")

    def find_supplier(self, name):
        """The one supplier of this name, or None. Raises LookupError when there are several."""
        wanted = name.casefold()
        found = [
            supplier
            for supplier in self.all(self.list_suppliers)
            if supplier["name"].casefold() == wanted
        ]
        if len(found) > 1:
            raise LookupError(f"there are {len(found)} suppliers of this name")
        return found[0] if found else None

    # ---- webhooks ----

    def list_webhooks(self, *, page=1):
        """One page of the webhooks, by URL."""
        query = {"page": page}
        return self._get("/webhooks", query)

    def get_webhook(self, id):
        return self._get(f"/webhooks/{id}")

    def create_webhook(self, url, events, **others):
        """Make a webhook and return it."""
        body = { "url": url, "events": events, **others }
        return self._post("/webhooks", _plain(body))

    def update_webhook(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_webhook: nothing to change")
        return self._patch(f"/webhooks/{id}", _plain(changes))

    def delete_webhook(self, id):
        """Remove a webhook for good."""
        self._delete(f"/webhooks/{id}")

    def test_webhook(self, id):
        """Have the service call the webhook once, now."""
        return self._post(f"/webhooks/{id}/test")

    # ---- people ----

    def list_people(self, *, role=None, page=1):
        """One page of the people, by name.

        role: only those of this role.
        """
        query = {"page": page}
        if role is not None:
            query["role"] = role
        return self._get("/people", query)

    def get_person(self, id):
        return self._get(f"/people/{id}")

    def create_person(self, name, role, **others):
        """Make a person and return it."""
        body = { "name": name, "role": role, **others }
        return self._post("/people", _plain(body))

    def update_person(self, id, **changes):
        """Change the fields that are named; the others stay.

        Raises ValueError when there is nothing to change.
        """
        if not changes:
            raise ValueError("update_person: nothing to change")
        return self._patch(f"/people/{id}", _plain(changes))

    def delete_person(self, id):
        """Remove a person for good."""
        self._delete(f"/people/{id}")

    def find_person(self, name):
        """The one person of this name, or None. Raises LookupError when there are several."""
        wanted = name.casefold()
        found = [
            person
            for person in self.all(self.list_people)
            if person["name"].casefold() == wanted
        ]
        if len(found) > 1:
            raise LookupError(f"there are {len(found)} people of this name")
        return found[0] if found else None

    # ---- reports ----

    def revenue(self, year, *, by="month"):
        """What was paid in a year, by month, quarter or customer."""
        if by not in ("month", "quarter", "customer"):
            raise ValueError(f"revenue: by can't be {by!r}")
        return self._get("/reports/revenue", {"year": year, "by": by})

    def open_items(self, *, customer=None, day=None):
        """What is not paid, of all customers or of one, today or on another day."""
        query = {}
        if customer is not None:
            query["customer"] = customer
        if day is not None:
            query["day"] = _day(day)
        return self._get("/reports/open-items", query)

    def hours(self, person, year):
        return self._get("/reports/hours", {"person": person, "year": year})
