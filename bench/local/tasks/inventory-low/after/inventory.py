"""What is on the shelves."""

from dataclasses import dataclass


@dataclass
class Article:
    """One kind of thing: `price` is in cents."""

    name: str
    count: int
    price: int


class Inventory:
    """Articles by name. Names are compared without case."""

    def __init__(self, articles=()):
        self._articles = {}
        for article in articles:
            self.add(article.name, article.count, article.price)

    def add(self, name, count, price=None):
        """Put `count` more there. A price that is given replaces the old one."""
        if count < 0:
            raise ValueError("use remove() to take something away")
        article = self._articles.get(name.lower())
        if article is None:
            self._articles[name.lower()] = Article(name, count, price or 0)
            return
        article.count += count
        if price is not None:
            article.price = price

    def remove(self, name, count):
        """Take `count` away. Raises ValueError when there are not so many."""
        article = self._find(name)
        if count > article.count:
            raise ValueError(f"there are only {article.count} of {article.name}")
        # An article stays known when nothing of it is left: its price is needed for reorders.
        article.count -= count

    def value(self):
        """What all of it is worth, in cents."""
        return sum(article.count * article.price for article in self._articles.values())

    def empty(self):
        """The names of the articles of which nothing is left, sorted."""
        return sorted(article.name for article in self._articles.values() if article.count == 0)

    def low(self, limit):
        """The names of the articles of which fewer than `limit` are there, sorted."""
        return sorted(article.name for article in self._articles.values() if article.count < limit)

    def to_lines(self):
        """A line for each article: name, count and price with a tab between them."""
        return [
            "\t".join((article.name, str(article.count), str(article.price)))
            for article in self._articles.values()
        ]

    @classmethod
    def from_lines(cls, lines):
        """What `to_lines` has written."""
        found = cls()
        for line in lines:
            name, count, price = line.rstrip("\n").split("\t")
            found.add(name, int(count), int(price))
        return found

    def _find(self, name):
        try:
            return self._articles[name.lower()]
        except KeyError:
            raise KeyError(f"there is no article {name!r}") from None


class Report:
    """Columns as wide as they must be."""

    HEAD = ("name", "count", "price")

    def __init__(self, inventory):
        self.rows = [self.HEAD] + [ tuple(line.split("\t")) for line in inventory.to_lines() ]

    def low(self, width):
        """Whether every column is narrower than `width` characters."""
        return all(len(cell) < width for row in self.rows for cell in row)

    def text(self):
        widths = [max(map(len, column)) for column in zip(*self.rows)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in self.rows)
