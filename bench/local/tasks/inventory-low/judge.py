from inventory import Article, Inventory, Report

stock = Inventory([Article("tea", 12, 350), Article("Cup", 2, 900), Article("milk", 0, 120), Article("ale", 3, 1)])
assert list(stock.low(3)) == ["Cup", "milk"]
assert list(stock.low(4)) == ["Cup", "ale", "milk"] or list(stock.low(4)) == ["ale", "Cup", "milk"]
assert list(stock.low(0)) == []
assert list(Inventory().low(5)) == []
assert stock.empty() == ["milk"]
assert stock.value() == 6003
assert Report(stock).low(6) is True
