"""The list of orders, for people."""


def money(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def overview(orders):
    """A line for each order, and the sum of all below."""
    lines = [f"{'order':>6}  {'customer':20}{'total':>12}"]
    total = 0
    for order in orders:
        lines.append(f"{order.number:>6}  {order.customer:20}{money(order.net_total()):>12}")
        total += order.net_total()
    lines.append(f"{'':>6}  {'total':20}{money(total):>12}")
    return "\n".join(lines)


def details(order):
    """The positions of one order."""
    lines = [f"Order {order.number} of {order.customer}"]
    for position in order.positions:
        lines.append(f"  {position.count:>4} x {position.name:30}{money(position.total()):>12}")
    return "\n".join(lines)
