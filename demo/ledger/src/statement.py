"""What happened to an account, as text."""

from src.account import transfer


def statement(account):
    """A line for each entry of `account`."""
    return "\n".join(f"{kind:<10}{amount / 100:>10.2f}" for kind, amount in account.entries)


def settle(debtor, creditor):
    """Pay all that `debtor` holds to `creditor`."""
    transfer(debtor, creditor, debtor.balance)
