"""A small ledger: accounts hold cents and never go below zero."""


class InsufficientFunds(Exception):
    """More was asked for than the account holds."""


class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.entries = []

    def deposit(self, amount):
        """Add `amount` cents and return the new balance."""
        self.balance += amount
        self.entries.append(("deposit", amount))
        return self.balance

    def withdraw(self, amount):
        """Take `amount` cents and return the new balance."""
        if amount > self.balance:
            raise InsufficientFunds(f"{self.owner} has only {self.balance} cents")
        self.balance -= amount
        self.entries.append(("withdraw", amount))
        return self.balance


def transfer(source, target, amount):
    """Move `amount` cents from one account to another."""
    source.withdraw(amount)
    target.deposit(amount)
