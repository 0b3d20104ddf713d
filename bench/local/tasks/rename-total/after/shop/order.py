"""Orders and what they cost, in cents."""

from dataclasses import dataclass, field

TAX = 19  # per cent


@dataclass
class Position:
    name: str
    price: int
    count: int = 1

    def total(self):
        """The price of all pieces."""
        return self.price * self.count


@dataclass
class Order:
    number: int
    customer: str
    positions: list = field(default_factory=list)
    shipping: int = 0

    def add(self, name, price, count=1):
        self.positions.append(Position(name, price, count))
        return self

    def net_total(self):
        """The price of all positions and the shipping, without tax."""
        return sum(position.total() for position in self.positions) + self.shipping

    def tax(self):
        """The tax, rounded to the next cent."""
        return round(self.net_total() * TAX / 100)

    def gross_total(self):
        """What the customer pays."""
        return self.net_total() + self.tax()

    def pieces(self):
        return sum(position.count for position in self.positions)
