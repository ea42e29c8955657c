"""A bank: accounts with entries, charges, interest, statements. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_inventory import MONEY
from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
        "money": MONEY,
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
