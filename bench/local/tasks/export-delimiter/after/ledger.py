#!/usr/bin/env python3
"""ledger: a small book of accounts in one CSV file.

    ledger.py FILE add DATE ACCOUNT AMOUNT [TEXT]
    ledger.py FILE list [--account ACCOUNT]
    ledger.py FILE search TEXT
    ledger.py FILE balance [--until DATE]
    ledger.py FILE months
    ledger.py FILE export [--columns LIST] [--delimiter CHAR] [--no-header]
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from collections import defaultdict
from dataclasses import astuple, dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path


class LedgerError(Exception):
    """Something that the user can put right."""


@dataclass(frozen=True)
class Entry:
    date: datetime.date
    account: str
    amount: Decimal
    text: str = ""


COLUMNS = [field.name for field in fields(Entry)]


# -- reading and writing ------------------------------------------------------

def parse_date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise LedgerError(f"not a date: {text} (write it like 2024-05-31)") from None


def parse_amount(text: str) -> Decimal:
    """An amount with at most two digits after the point; a comma is taken for the point."""
    try:
        amount = Decimal(text.replace(",", "."))
    except InvalidOperation:
        raise LedgerError(f"not an amount: {text}") from None
    if amount != amount.quantize(Decimal("0.01")):
        raise LedgerError(f"more than two digits after the point: {text}")
    return amount


def read(path: Path) -> list[Entry]:
    """The entries of the file, in its order. No file is an empty book."""
    if not path.exists():
        return []
    entries = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            if len(row) != len(COLUMNS):
                raise LedgerError(f"{path}:{number}: {len(row)} columns instead of {len(COLUMNS)}")
            date, account, amount, text = row
            entries.append(Entry(parse_date(date), account, parse_amount(amount), text))
    return entries


def append(path: Path, entry: Entry) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file).writerow(astuple(entry))


# -- commands -----------------------------------------------------------------

def add(options: argparse.Namespace) -> None:
    entry = Entry(
        parse_date(options.date), options.account, parse_amount(options.amount), " ".join(options.text)
    )
    entries = read(options.file)
    if entries and entry.date < entries[-1].date:
        # Not an error: a late bill is normal.
        print(f"note: the last entry is of {entries[-1].date}", file=sys.stderr)
    append(options.file, entry)


def list_entries(options: argparse.Namespace) -> None:
    for entry in read(options.file):
        if options.account and entry.account != options.account:
            continue
        print(f"{entry.date}  {entry.account:12}{entry.amount:>10}  {entry.text}".rstrip())


def search(options: argparse.Namespace) -> None:
    """Like list, but only what has TEXT in its account or text, in any case."""
    wanted = options.text.casefold()
    for entry in read(options.file):
        if wanted in entry.account.casefold() or wanted in entry.text.casefold():
            print(f"{entry.date}  {entry.account:12}{entry.amount:>10}  {entry.text}".rstrip())


def balance(options: argparse.Namespace) -> None:
    until = parse_date(options.until) if options.until else datetime.date.max
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for entry in read(options.file):
        if entry.date <= until:
            sums[entry.account] += entry.amount
    for account in sorted(sums):
        print(f"{account:12}{sums[account]:>10}")
    print(f"{'':12}{sum(sums.values(), Decimal()):>10}")


def months(options: argparse.Namespace) -> None:
    """A line for each month and account: what came in, what went out."""
    came: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    went: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for entry in read(options.file):
        where = (f"{entry.date:%Y-%m}", entry.account)
        (came if entry.amount > 0 else went)[where] += entry.amount
    for month, account in sorted({*came, *went}):
        where = (month, account)
        print(f"{month}  {account:12}{came[where]:>10}{went[where]:>10}")


def export(options: argparse.Namespace) -> None:
    """Write the chosen columns to standard output, in the order in which they are named."""
    columns = options.columns.split(",") if options.columns else COLUMNS
    for column in columns:
        if column not in COLUMNS:
            raise LedgerError(f"there is no column {column}: choose from {', '.join(COLUMNS)}")
    writer = csv.writer(sys.stdout, delimiter=options.delimiter, lineterminator="\n")
    if options.header:
        writer.writerow(columns)
    for entry in read(options.file):
        writer.writerow([getattr(entry, column) for column in columns])


# -- the command line ---------------------------------------------------------

def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog="ledger.py", description="A small book of accounts.")
    main.add_argument("file", type=Path, help="the book")
    commands = main.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("add", help="add an entry")
    command.add_argument("date")
    command.add_argument("account")
    command.add_argument("amount")
    command.add_argument("text", nargs="*")
    command.set_defaults(run=add)

    command = commands.add_parser("list", help="show the entries")
    command.add_argument("--account", help="of this account only")
    command.set_defaults(run=list_entries)

    command = commands.add_parser("search", help="find entries by their text")
    command.add_argument("text")
    command.set_defaults(run=search)

    command = commands.add_parser("balance", help="add up the accounts")
    command.add_argument("--until", metavar="DATE", help="up to this day")
    command.set_defaults(run=balance)

    command = commands.add_parser("months", help="what came in and went out, month by month")
    command.set_defaults(run=months)

    command = commands.add_parser("export", help="write the entries as CSV")
    command.add_argument("--columns", metavar="LIST", help="the columns, with commas between them")
    command.add_argument("--delimiter", metavar="CHAR", default=",", help="what stands between the columns")
    command.add_argument("--no-header", dest="header", action="store_false", help="without the first line")
    command.set_defaults(run=export)
    return main


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except LedgerError as error:
        print(f"ledger.py: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
