from shop.order import Order, Position
from shop.report import details, overview

order = Order(7, "Ann", shipping=500).add("tea", 350, 2).add("cup", 900)
assert order.net_total() == 2100
assert not hasattr(order, "total")
assert (order.tax(), order.gross_total(), order.pieces()) == (399, 2499, 3)
assert Position("tea", 350, 2).total() == 700
assert overview([order, order]).splitlines() == [
    " order  customer                   total",
    "     7  Ann                        21.00",
    "     7  Ann                        21.00",
    "        total                      42.00",
]
assert details(order).splitlines()[1:] == [
    "     2 x tea                                   7.00",
    "     1 x cup                                   9.00",
]
