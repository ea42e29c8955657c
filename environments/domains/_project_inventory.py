"""A shop: stock levels, prices with discounts, orders. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

MONEY = '''
"""Amounts of money in cents."""


def percent_of(amount, percent):
    """So many per cent of an amount."""
    return amount * percent // 100               #? rounding=down
    return (amount * percent + 50) // 100        #? rounding=half_up
    return -(-amount * percent // 100)           #? rounding=up


def largest(amounts, least=0):
    """The largest amount, or `least` when none is larger."""
    found = least
    for amount in amounts:
        if amount > found:
            found = amount
    return found


def as_text(amount, symbol='$symbol'):
    """An amount with two decimals and a symbol."""
    sign = '-' if amount < 0 else ''
    amount = abs(amount)
    return f'{sign}{amount // 100}.{amount % 100:02d} {symbol}'
'''

KIND = Kind(
    id="inventory",
    summary="Stock levels, prices and orders of a shop.",
    library="money",
    features={
        "rounding": ("down", "half_up", "up"),
        "short": ("refuse", "partial"),
        "discount": ("bulk", "tiers", "none"),
        "fee": (True, False),
    },
    constants={
        "pkg": ("shop", "depot", "store", "market"),
        "Stock": ("Stock", "Shelf", "Holdings"),
        "receive": ("receive", "put", "stock_up"),
        "take": ("take", "remove", "withdraw"),
        "symbol": ("EUR", "USD", "CHF"),
        "minimum": (3, 4, 5, 6),
        "bulk_from": (10, 12, 20),
        "bulk_percent": (10, 15, 20),
        "tier_one": (5, 8),
        "tier_two": (15, 25),
        "fee_below": (2000, 5000),
        "fee_cents": (350, 490),
    },
    modules={
        "errors": '''
"""What can go wrong."""


class InventoryError(Exception):
    code = 'error'


class OutOfStock(InventoryError):
    code = 'out of stock'


class UnknownItem(InventoryError):
    code = 'unknown item'


class BadQuantity(InventoryError):
    code = 'bad quantity'
''',
        "money": MONEY,
        "stock": '''
"""How much of everything there is."""
from $pkg.errors import BadQuantity, OutOfStock, UnknownItem


class $Stock:

    def __init__(self, levels=None, minimum=$minimum):
        if levels is None:
            levels = {}
        self.levels = levels
        self.minimum = minimum
        self._cached_total = None

    def $receive(self, item, quantity):
        """Add to the level of an item and return the new level."""
        if quantity <= 0:
            raise BadQuantity(item)
        self.levels[item] = self.levels.get(item, 0) + quantity
        self._cached_total = None
        return self.levels[item]

    def $take(self, item, quantity):
        """Take from the level of an item and return what was taken."""
        if quantity <= 0:
            raise BadQuantity(item)
        if item not in self.levels:
            raise UnknownItem(item)
        have = self.levels[item]
        if have < quantity:
            raise OutOfStock(item)          #? short=refuse
            quantity = have                 #? short=partial
        self.levels[item] = have - quantity
        self._cached_total = None
        return quantity

    def low(self):
        """Items with less than the minimum, in order of their names."""
        return sorted((item for item, level in self.levels.items() if level < self.minimum))

    def total(self):
        """Pieces of all items together."""
        if self._cached_total is None:
            self._cached_total = sum(self.levels.values())
        return self._cached_total
''',
        "pricing": '''
"""Prices of orders in cents."""
from $lib.money import largest, percent_of


def discount_rate(quantity):
    """Per cent off for so many pieces."""
    if quantity >= $bulk_from:          #? discount=bulk
        return $bulk_percent            #? discount=bulk
    if quantity >= $tier_two:           #? discount=tiers
        return 12                       #? discount=tiers
    if quantity >= $tier_one:           #? discount=tiers
        return 5                        #? discount=tiers
    return 0


def line_price(unit, quantity):
    """Price of so many pieces, less the discount."""
    full = unit * quantity
    return full - percent_of(full, discount_rate(quantity))


def order_price(lines):
    """Price of all lines: pairs of unit price and quantity."""
    prices = [line_price(unit, quantity) for unit, quantity in lines]
    price = sum(prices)
    if 0 < price < $fee_below:          #? fee
        price += $fee_cents             #? fee
    return price


def dearest(lines):
    """Price of the dearest line, 0 when there is none."""
    return largest([line_price(unit, quantity) for unit, quantity in lines])
''',
        "app": '''
"""The shop as one function."""
from $pkg.errors import InventoryError
from $lib.money import as_text
from $pkg.pricing import dearest, order_price
from $pkg.stock import $Stock


def perform(stock, event):
    """The result of one event."""
    name = event[0]
    if name == 'receive':
        return stock.$receive(event[1], event[2])
    if name == 'take':
        return stock.$take(event[1], event[2])
    if name == 'low':
        return stock.low()
    if name == 'total':
        return stock.total()
    return dict(stock.levels)


def run(events):
    """Results of events in turn; an error is told as text and changes nothing."""
    stock = $Stock()
    results = []
    for event in events:
        try:
            results.append(perform(stock, event))
        except InventoryError as error:
            results.append(f'error: {error.code}')
    return results


def invoice(lines):
    """Total and dearest line of an order as text."""
    return {'total': as_text(order_price(lines)), 'dearest': as_text(dearest(lines))}
''',
    },
    spec="""
- `run(events)` starts with an empty stock. `receive` and `take` need a quantity above 0 (else `bad quantity`).
- `receive` gives the new level, `take` what was taken; taking an item never received is `unknown item`.
- Taking more than there is: `out of stock`, and nothing is taken.      #? short=refuse
- Taking more than there is takes what is left.                         #? short=partial
- `low` lists the items with less than $minimum pieces, sorted by name; `total` counts all pieces; `levels` tells all.
- `invoice(lines)` prices pairs of unit price in cents and quantity.
- From $bulk_from pieces on, a line costs $bulk_percent % less.                             #? discount=bulk
- A line costs 5 % less from $tier_one pieces on, and 12 % less from $tier_two pieces on.   #? discount=tiers
- There are no discounts for quantity.                                                      #? discount=none
- Discounts are rounded down to whole cents.                                                #? rounding=down
- Discounts are rounded to the nearest cent, halves up.                                     #? rounding=half_up
- Discounts are rounded up to whole cents.                                                  #? rounding=up
- An order that costs something, but less than $fee_below cents, has a fee of $fee_cents cents added.   #? fee
- There are no fees.                                                                        #? !fee
- Amounts are written like `-12.05 $symbol`.
""",
    cases=lambda rng, v: _inventory_case(rng, v),
)


def _inventory_case(rng: Random, v: Values) -> Case:
    if rng.random() < 0.4:
        edges = [1, 2, v["tier_one"] - 1, v["tier_one"], v["tier_two"], v["bulk_from"] - 1, v["bulk_from"], 30]
        lines = [[rng.choice([5, 99, 101, 133, 499]), rng.choice(edges)] for _ in range(rng.randint(0, 3))]
        return f"{v['pkg']}.app:invoice", [lines]
    items = rng.sample(["bolt", "cable", "nut", "screw", "tape", "wire"], 3)
    events: list[list[Any]] = []
    for _ in range(rng.randint(3, 8)):
        name = rng.choice(["receive", "receive", "receive", "take", "take", "low", "total", "levels"])
        amount = rng.choice([0, 1, 2, v["minimum"] - 1, v["minimum"], v["minimum"] + 1, 9])
        events.append([name, rng.choice(items), amount] if name in ("receive", "take") else [name])
    return f"{v['pkg']}.app:run", [[*events, ["low"], ["total"], ["levels"]]]
