"""Projects about goods and money: an inventory, a ledger, a report over comma-separated values."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

_MONEY = '''
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

_INVENTORY = Kind(
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
        "money": _MONEY,
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


_LEDGER = Kind(
    id="ledger",
    summary="Accounts with entries, interest and statements.",
    library="money",
    features={
        "rounding": ("half_up", "down", "up"),
        "overdraft": (True, False),
        "charge": (True, False),
        "order": ("name", "balance"),
    },
    constants={
        "pkg": ("bank", "ledger", "books", "accounts"),
        "Account": ("Account", "Purse", "Ledger"),
        "deposit": ("deposit", "pay_in", "credit"),
        "symbol": ("EUR", "GBP", "SEK"),
        "limit": (500, 1000, 2500),
        "charge_percent": (1, 2, 3),
        "rate": (2, 3, 4),
        "free_up_to": (1000, 2000),
        "recent": (2, 3, 4),
    },
    modules={
        "errors": '''
"""Refusals."""


class Refused(Exception):
    code = 'refused'


class NoSuchAccount(Refused):
    code = 'no such account'


class NotCovered(Refused):
    code = 'not covered'
''',
        "money": _MONEY,
        "accounts": '''
"""One account and its entries."""
from $pkg.errors import NotCovered, Refused

LOWEST = -$limit        #? overdraft
LOWEST = 0              #? !overdraft


class $Account:

    def __init__(self, name, entries=None):
        if entries is None:
            entries = []
        self.name = name
        self.entries = entries
        self._cached_balance = None

    def $deposit(self, amount):
        if amount <= 0:
            raise Refused(amount)
        self.entries.append(amount)
        self._cached_balance = None

    def withdraw(self, amount):
        if amount <= 0:
            raise Refused(amount)
        if self.balance() - amount < LOWEST:
            raise NotCovered(amount)
        self.entries.append(-amount)
        self._cached_balance = None

    def balance(self):
        if self._cached_balance is None:
            self._cached_balance = sum(self.entries)
        return self._cached_balance

    def recent(self, number=$recent):
        """The last entries, the newest first."""
        return self.entries[-number:][::-1]
''',
        "rules": '''
"""Charges and interest."""
from $lib.money import largest, percent_of


def charge_for(amount):
    """What a transfer costs the sender."""
    if amount > $free_up_to:                            #? charge
        return percent_of(amount, $charge_percent)      #? charge
    return 0


def interest(balance, years):
    """Interest added year by year on what is there; none on debts."""
    start = balance
    while years > 0:
        balance += largest([percent_of(balance, $rate)])
        years -= 1
    return balance - start
''',
        "book": '''
"""All accounts."""
from $pkg.accounts import $Account
from $pkg.errors import NoSuchAccount
from $pkg.rules import charge_for, interest


class Book:

    def __init__(self):
        self.accounts = {}

    def open(self, name):
        self.accounts.setdefault(name, $Account(name))

    def find(self, name):
        if name not in self.accounts:
            raise NoSuchAccount(name)
        return self.accounts[name]

    def transfer(self, source, target, amount):
        """Move money; the sender pays the charge on top."""
        sender, receiver = (self.find(source), self.find(target))
        sender.withdraw(amount + charge_for(amount))
        receiver.$deposit(amount)
        return sender.balance()

    def add_interest(self, name, years):
        account = self.find(name)
        earned = interest(account.balance(), years)
        if earned > 0:
            account.$deposit(earned)
        return earned

    def balances(self):
        """Pairs of name and balance in the order of the statement."""
        pairs = [(account.name, account.balance()) for account in self.accounts.values()]
        return sorted(pairs)                                                    #? order=name
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))              #? order=balance
''',
        "app": '''
"""The ledger as one function."""
from $pkg.book import Book
from $pkg.errors import Refused
from $lib.money import as_text


def perform(book, event):
    name = event[0]
    if name == 'open':
        book.open(event[1])
        return True
    if name == 'deposit':
        book.find(event[1]).$deposit(event[2])
        return book.find(event[1]).balance()
    if name == 'withdraw':
        book.find(event[1]).withdraw(event[2])
        return book.find(event[1]).balance()
    if name == 'transfer':
        return book.transfer(event[1], event[2], event[3])
    if name == 'interest':
        return book.add_interest(event[1], event[2])
    return book.find(event[1]).recent()


def run(events):
    """Results of events in turn, then the statement."""
    book = Book()
    results = []
    for event in events:
        try:
            results.append(perform(book, event))
        except Refused as error:
            results.append(error.code)
    statement = [f'{name}: {as_text(balance)}' for name, balance in book.balances()]
    return {'results': results, 'statement': statement}
''',
    },
    spec="""
- `run(events)` starts without accounts and gives the results of the events and a statement; all amounts are cents.
- `open` gives true and leaves an account that exists as it is; an unknown account is `no such account`.
- `deposit` and `withdraw` give the new balance; an amount of 0 or less is `refused`.
- A balance may go down to -$limit; what would go below is `not covered`, and nothing happens.      #? overdraft
- A balance may go down to 0; what would go below is `not covered`, and nothing happens.            #? !overdraft
- `transfer` gives the sender's balance. It costs nothing.                                          #? !charge
- `transfer` gives the sender's balance. Above $free_up_to it costs the sender $charge_percent % of the amount extra, up to there nothing.    #? charge
- `interest` adds $rate % of the balance for each year, on what is there by then, none on debts, and gives the sum.
- Percentages are rounded down to whole cents.               #? rounding=down
- Percentages are rounded to the nearest cent, halves up.    #? rounding=half_up
- Percentages are rounded up to whole cents.                 #? rounding=up
- `recent` gives the last $recent entries, the newest first.
- The statement is sorted by name, with amounts like `-12.05 $symbol`.                                #? order=name
- The statement has the largest balance first, equal ones by name, amounts like `-12.05 $symbol`.     #? order=balance
""",  # noqa: E501
    cases=lambda rng, v: _ledger_case(rng, v),
)


def _ledger_case(rng: Random, v: Values) -> Case:
    names = rng.sample(["ada", "ben", "cleo", "dan"], 2)
    events: list[list[Any]] = [["open", name] for name in names]
    events.append(["deposit", names[0], rng.choice([700, 1530, 2999, 6150])])
    for _ in range(rng.randint(3, 7)):
        name = rng.choice(["deposit", "deposit", "withdraw", "transfer", "transfer", "interest", "recent", "open"])
        who, other = rng.choice([*names, *names, "eve"]), rng.choice(names)
        balance_like = [-5, 0, 30, 500, 777, v["limit"], v["free_up_to"], v["free_up_to"] + 1, v["free_up_to"] + 150]
        amount = rng.choice(balance_like)
        events.append(
            {
                "transfer": ["transfer", who, other, amount],
                "interest": ["interest", who, rng.randint(0, 4)],
                "recent": ["recent", who],
                "open": ["open", who],
            }.get(name, [name, who, amount])
        )
    return f"{v['pkg']}.app:run", [[*events, ["recent", names[0]]]]


_REPORT = Kind(
    id="csv_report",
    summary="Reports over comma-separated values.",
    library="cells",
    features={
        "quotes": (True, False),
        "total": ("sum", "mean", "largest"),
        "order": ("name", "value"),
        "blank": ("skip", "zero"),
        "footer": (True, False),
    },
    constants={
        "pkg": ("report", "tables", "figures", "summary"),
        "split": ("split_line", "cells_of", "fields"),
        "mark": ("-", "=", "~"),
        "gap": (1, 2, 3),
        "width": (6, 7, 8),
        "separator": (";", ",", "|"),
    },
    modules={
        "cells": '''
"""Cells of one line."""


def $split(line, separator='$separator'):
    """The cells of a line, without spaces around them."""
    found = []
    cell = ''
    quoted = False                                                #? quotes
    for letter in line:
        if letter == '"':                                         #? quotes
            quoted = not quoted                                   #? quotes
        elif letter == separator and (not quoted):                #? quotes
        if letter == separator:                                   #? !quotes
            found.append(cell.strip())
            cell = ''
        else:
            cell += letter
    found.append(cell.strip())
    return found


def number(cell, empty=None):
    """The whole number in a cell, or `empty` for a cell without one."""
    digits = cell[1:] if cell[:1] == '-' else cell
    if not digits.isdigit():
        return empty
    return int(cell)


def padded(text, width, right=False):
    """The text filled up with spaces, or cut, to a width."""
    text = text[:width]
    space = ' ' * (width - len(text))
    return space + text if right else text + space
''',
        "table": '''
"""Text as rows."""
from $lib.cells import $split


def lines_of(text):
    """Lines with something in them that are no comments."""
    for line in text.split('\\n'):
        if line.strip() and (not line.startswith('#')):
            yield line


def read(text):
    """Rows as dictionaries by the names in the first line; rows that are too short have empty cells."""
    rows = []
    head = None
    for line in lines_of(text):
        cells = $split(line)
        if head is None:
            head = cells
            continue
        cells += [''] * (len(head) - len(cells))
        rows.append(dict(zip(head, cells)))
    return rows
''',
        "groups": '''
"""Figures of groups of rows."""
from $lib.cells import number


def values_of(rows, column):
    found = []
    for row in rows:
        value = number(row.get(column, ''))
        if value is None:
            continue                            #? blank=skip
            value = 0                           #? blank=zero
        found.append(value)
    return found


def figure(values):
    """One figure for all values, 0 when there are none."""
    if not values:
        return 0
    return sum(values)                          #? total=sum
    return sum(values) // len(values)           #? total=mean
    return max(values)                          #? total=largest


def by_group(rows, key, column):
    """Pairs of a group and its figure."""
    groups = {}
    for row in rows:
        groups.setdefault(row.get(key, ''), []).append(row)
    pairs = [(name, figure(values_of(members, column))) for name, members in groups.items()]
    return sorted(pairs)                                                #? order=name
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))          #? order=value
''',
        "layout": '''
"""Rows of text."""
from $lib.cells import padded

WIDTH = $width
GAP = $gap


def line(left, right):
    return padded(left, WIDTH) + ' ' * GAP + padded(right, WIDTH, True)


def ruler(mark='$mark'):
    return mark * (2 * WIDTH + GAP)


def page(title, pairs):
    """A title, a ruler and a line for each pair."""
    lines = [title, ruler()]
    for name, value in pairs:
        lines.append(line(name, str(value)))
    if pairs:                                                                   #? footer
        lines.append(ruler())                                                   #? footer
        lines.append(line('all', str(sum((value for _, value in pairs)))))      #? footer
    return lines
''',
        "app": '''
"""Reports from text."""
from $pkg.groups import by_group
from $pkg.layout import page
from $pkg.table import read


def rows(text):
    """The rows of a table."""
    return read(text)


def report(text, key, column, top=None):
    """The lines of a report: a figure for each group, at most `top` of them."""
    pairs = by_group(read(text), key, column)
    if top is not None:
        pairs = pairs[:top]
    return page(f'{column} by {key}', pairs)
''',
    },
    spec="""
- Cells are separated by `$separator`; spaces around a cell do not count. Empty lines and lines that begin with `#` are skipped.
- Separators between double quotes belong to the cell; the quotes do not.             #? quotes
- Quotes have no meaning.                                                             #? !quotes
- The first line names the columns. A row with too few cells has empty ones; cells beyond the columns are dropped.
- `report(text, key, column, top)` gives the title, a ruler of `$mark` over the whole width, and a line for each group.
- The figure of a group is the sum of its values.                                     #? total=sum
- The figure of a group is the mean of its values, rounded down.                      #? total=mean
- The figure of a group is the largest of its values.                                 #? total=largest
- A cell without a whole number does not count as a value; a group without values has 0.    #? blank=skip
- A cell without a whole number counts as 0.                                          #? blank=zero
- Groups are sorted by name.                                                          #? order=name
- Groups are sorted by figure, the largest first; equal ones by name.                 #? order=value
- With `top`, only so many groups are shown.
- A line is the name, filled up or cut to $width characters, $gap space(s), and the figure to the right in $width characters.
- When there are groups, another ruler and a line `all` with the sum of the shown figures follow.     #? footer
""",  # noqa: E501
    cases=lambda rng, v: _report_case(rng, v),
)


def _report_case(rng: Random, v: Values) -> Case:
    separator = v["separator"]
    lines = [f"city {separator} kind{separator}sold"]
    cities = rng.sample(["Oslo", "Lima", "Reykjavik", '"Port' + separator + ' Said"', "Bern", ""], 3)
    for _ in range(rng.randint(0, 6)):
        sold = rng.choice(["1", "2", "7", "15", "30", "-4", "", "n/a", " 12 ", "400"])
        kind = rng.choice(["new", "old", ' "mid" '])
        cells = [rng.choice(cities), kind, sold][: rng.choice([2, 3, 3, 3, 3])]
        lines.append(separator.join(cells))
        if rng.random() < 0.2:
            lines.append(rng.choice(["", "# later", "   ", " #5" + separator + "x"]))
    text = "\n".join(lines)
    if rng.random() < 0.25:
        return f"{v['pkg']}.app:rows", [text]
    top = [rng.choice([None, 1, 2])] if rng.random() < 0.5 else []
    return f"{v['pkg']}.app:report", [text, rng.choice(["city", "kind"]), "sold", *top]


KINDS = (_INVENTORY, _LEDGER, _REPORT)
