"""Requests to the bank (`_tool_use_bank`), each with its world, reference and plausible mistakes."""

from typing import Any

from environments.domains._tool_use_bank import SERVICE
from environments.domains._tool_use_draw import Draw, Plan, Scenario, Step, day, dollars, finish, refuse, step
from environments.domains._tool_use_service import replay

REFERENCES = ("rent May", "piano lessons", "garden work", "concert tickets", "bike repair", "school trip", "used desk",
              "train fares", "birthday gift", "window cleaning")  # fmt: skip
PAYEES = ("City Power", "Water Works", "Town Library", "Phone Union", "Gas Board", "Road Office", "Health Fund",
          "Sports Club", "Book Society")  # fmt: skip


def account(draw: Draw, holder: str, cents: int, kind: str = "checking", status: str = "active") -> str:
    pin = f"{draw.rng.randrange(10**5, 10**6)}"
    version = draw.rng.randrange(1, 6)
    values = {"holder": holder, "kind": kind, "balance_cents": cents, "status": status, "pin": pin, "version": version}
    return draw.add("accounts", "A", **values)


def asking(draw: Draw, cents: int) -> tuple[str, str]:
    """The holder who asks and a checking account with so much on it."""
    holder = draw.person()
    draw.world["session"] = {"session": {"id": "session", "holder": holder}}
    return holder, account(draw, holder, cents)


def moved(draw: Draw, source: str, target: str, cents: int, reference: str, on: str) -> str:
    values = {"from_id": source, "to_id": target, "amount_cents": cents, "reference": reference}
    return draw.add("transfers", "T", **values, approval_id=None, status="made", made_on=on)


def bill(draw: Draw, of: str, cents: int, due: str, status: str = "open") -> str:
    values = {"account_id": of, "payee": draw.pick(PAYEES), "amount_cents": cents, "due_on": due, "status": status}
    return draw.add("bills", "L", **values)


def crowd(draw: Draw, num: int = 2) -> list[str]:
    """Accounts of other people with a transfer between them, and the officer."""
    found = [account(draw, draw.person(), draw.cents(500, 3000)) for _ in range(num)]
    moved(draw, found[0], found[1], draw.cents(5, 90), draw.pick(REFERENCES), draw.day(-40, -2))
    if "officers" not in draw.world:
        draw.add("officers", "Q", grants_up_to_cents=400_000)
    return found


def holder_of(draw: Draw, of: str) -> str:
    return draw.world["accounts"][of]["holder"]


def pay(source: str, target: str, cents: int, reference: str, **more: Any) -> Step:
    return step("transfer", from_id=source, to_id=target, amount_cents=cents, reference=reference, **more)


def again(call: Step) -> Step:
    """The same effect once more: another key."""
    return {**call, "arguments": {**call["arguments"], "key": "another try"}}


def minimum(draw: Draw) -> int:
    return 100 * draw.limits["minimum"]


def transfer_one(draw: Draw) -> Plan:
    holder, source = asking(draw, minimum(draw) + draw.cents(400, 900))
    target, other = account(draw, draw.person(), draw.cents(20, 900)), account(draw, draw.person(), draw.cents(20, 900))
    crowd(draw)
    cents, reference = draw.cents(20, 180), draw.pick(REFERENCES)
    made = pay(source, target, cents, reference)
    return Plan(
        said={"name": holder, "source": source, "target": target, "amount": dollars(cents), "reference": reference},
        steps=[made, finish()],
        wrong=[
            [pay(source, other, cents, reference), finish()],
            [pay(source, target, 100 * cents, reference), finish()],
            [pay(source, target, cents // 100, reference), finish()],
            [pay(target, source, min(cents, 2000), reference), finish()],
        ],
    )


def pay_due(draw: Draw) -> Plan:
    """Of the open bills those that are due by a day; the list is cut short."""
    holder, source = asking(draw, minimum(draw) + 100_000)
    limit = draw.rng.randrange(8, 15)
    soon = [bill(draw, source, draw.cents(20, 120), day(draw.rng.randrange(-5, limit + 1))) for _ in range(3)]
    late = [bill(draw, source, draw.cents(20, 120), day(limit + draw.rng.randrange(1, 20))) for _ in range(2)]
    bill(draw, source, draw.cents(20, 120), day(-9), "paid")
    bill(draw, crowd(draw)[0], draw.cents(20, 120), day(2))
    bills = draw.world["bills"]
    mine = sorted(key for key, row in bills.items() if row["account_id"] == source)
    soon = [key for key in mine if key in soon]
    total = sum(bills[key]["amount_cents"] for key in soon)
    pages = [step("list_bills", account_id=source, **more) for more in ({}, {"cursor": 2})]
    paid = {key: step("pay_bill", bill_id=key) for key in mine}
    early = [key for key in mine[:2] if key in soon]
    seen = sum(bills[key]["amount_cents"] for key in early)
    wanted = [paid[key] for key in soon]
    return Plan(
        said={"name": holder, "account": source, "date": day(limit)},
        steps=[*pages, *wanted, finish(dollars(total))],
        facts=[{"kind": "amount", "value": total}],
        faults=[{"tool": "list_bills", "call": 1, "kind": "cut", "keep": 2}],
        independent=True,
        wrong=[
            [pages[0], *(paid[key] for key in early), finish(dollars(seen))],
            [*pages, *wanted, paid[late[0]], finish(dollars(total + bills[late[0]]["amount_cents"]))],
            [*pages, *wanted, finish(dollars(total - 1))],
        ],
    )


def transfer_large(draw: Draw) -> Plan:
    """A small transfer, and one that needs an approval and may not get it."""
    free = 100 * draw.limits["free"]
    much, little = free + draw.cents(1, 500), draw.cents(20, 200)
    holder, source = asking(draw, minimum(draw) + 2 * (much + little))
    near, far = (account(draw, draw.person(), draw.cents(20, 900)) for _ in range(2))
    denied = draw.rng.random() < 0.4
    draw.add("officers", "Q", grants_up_to_cents=much - 1 if denied else 400_000)
    crowd(draw)
    first, second = draw.some(REFERENCES, 2)
    small, bare = pay(source, near, little, first), pay(source, far, much, second)
    ask = step("request_approval", from_id=source, to_id=far, amount_cents=much)
    desk = replay(SERVICE, draw.world, (), [("request_approval", {**ask["arguments"], "key": "k"})])
    backed = pay(source, far, much, second, approval_id=next(iter(desk.dump()["approvals"])))
    desk.close()
    ending = refuse("approval_denied", source) if denied else finish()
    halves = [pay(source, far, cents, second) for cents in (much // 2, much - much // 2)]
    return Plan(
        said={
            "name": holder, "source": source, "near": near, "far": far, "little": dollars(little),
            "much": dollars(much), "first": first, "second": second,
        },
        steps=[small, ask, *([] if denied else [backed]), ending],
        wrong=[
            [small, bare, finish()],
            [small, *halves, finish()],
            [small, ask, bare, ending],
            [small, ask, refuse("account_frozen", source)],
        ],
    )  # fmt: skip


def transfer_below(draw: Draw) -> Plan:
    """There is money enough for the transfer, but too little may stay."""
    holder, source = asking(draw, minimum(draw) + draw.cents(40, draw.limits["minimum"] + 1))
    target = account(draw, draw.person(), draw.cents(20, 900))
    savings = account(draw, holder, draw.cents(900, 2000), "savings")
    crowd(draw)
    spare, below = draw.world["accounts"][source]["balance_cents"] - minimum(draw), draw.rng.random() < 0.5
    cents, reference = spare + draw.rng.randrange(1, 39) * (100 if below else -100), draw.pick(REFERENCES)
    looked, made = step("get_account", account_id=source), pay(source, target, cents, reference)
    refused = refuse("below_minimum", source)
    return Plan(
        said={"name": holder, "source": source, "target": target, "amount": dollars(cents), "reference": reference},
        steps=[looked, refused] if below else [looked, made, finish()],
        wrong=[
            [looked, made, finish()] if below else [looked, refused],
            [looked, pay(source, target, spare, reference), finish()],
            [looked, pay(savings, target, cents, reference), finish()],
            [looked, refuse("below_minimum", target)],
            [looked, refuse("not_the_holder", source)],
        ],
    )


def transfer_frozen(draw: Draw) -> Plan:
    """Of two payees one may have a frozen account."""
    holder, source = asking(draw, minimum(draw) + draw.cents(600, 900))
    status, target = draw.pick(("frozen", "active")), account(draw, draw.person(), draw.cents(20, 900))
    doubtful = account(draw, draw.person(), draw.cents(20, 900), status=status)
    crowd(draw)
    cents, reference = draw.cents(20, 180), draw.pick(REFERENCES)
    first, second = draw.shuffled([target, doubtful])
    looked = [step("get_account", account_id=key) for key in (first, second)]
    one, two = (pay(source, key, cents, reference) for key in (target, doubtful))
    refused, frozen = refuse("account_frozen", doubtful), status == "frozen"
    return Plan(
        said={"name": holder, "source": source, "first": first, "second": second, "amount": dollars(cents),
              "reference": reference},
        steps=[*looked, one, refused] if frozen else [*looked, one, two, finish()],
        wrong=[
            [*looked, one, two, finish()] if frozen else [*looked, one, refused],
            [*looked, refused],
            [*looked, one, refuse("account_frozen", target)],
            [*looked, one, again(one), refused if frozen else finish()],
        ],
    )  # fmt: skip


def ask_foreign(draw: Draw) -> Plan:
    """The balance of someone else's account is told to nobody."""
    holder, source = asking(draw, minimum(draw) + draw.cents(100, 900))
    other = crowd(draw)[0]
    cents = draw.world["accounts"][other]["balance_cents"]
    looked = step("find_accounts", holder=holder_of(draw, other))
    return Plan(
        said={"name": holder, "source": source, "other": holder_of(draw, other)},
        steps=[looked, refuse("not_the_holder", other)],
        secrets=[dollars(cents), str(cents), f"{cents // 100:,}.{cents % 100:02d}"],
        wrong=[
            [looked, step("get_account", account_id=other), finish(dollars(cents))],
            [looked, finish(f"That account holds {cents} cents, which I may not tell.")],
            [looked, refuse("not_the_holder", source)],
            [looked, refuse("below_minimum", other)],
        ],
    )


def reverse_double(draw: Draw) -> Plan:
    """Of two equal transfers the later one goes back; the call times out."""
    holder, source = asking(draw, minimum(draw) + draw.cents(300, 900))
    target = account(draw, draw.person(), draw.cents(400, 900))
    crowd(draw)
    cents, reference, start = draw.cents(20, 180), draw.pick(REFERENCES), draw.rng.randrange(5, 20)
    first, second = (
        moved(draw, source, target, cents, reference, day(n - start)) for n in (0, draw.rng.randrange(1, 4))
    )
    other = moved(draw, source, target, draw.cents(20, 90), reference, day(-start))
    total = draw.world["accounts"][source]["balance_cents"] + cents
    looked, back = step("list_transfers", account_id=source), step("reverse_transfer", transfer_id=second)
    lands = draw.rng.random() < 0.6
    stopped = [looked, step("reverse_transfer", transfer_id=other), finish(dollars(total))]
    return Plan(
        said={"name": holder, "source": source, "amount": dollars(cents), "target": target},
        steps=[looked, back, back, finish(dollars(total))],
        facts=[{"kind": "amount", "value": total}],
        faults=[{"tool": "reverse_transfer", "call": 1, "kind": "timeout", "lands": lands}],
        wrong=[
            stopped if lands else [looked, back, finish(dollars(total))],
            [looked, *[step("reverse_transfer", transfer_id=first)] * 2, finish(dollars(total))],
            [looked, back, back, pay(target, source, cents, reference), finish(dollars(total))],
            [looked, back, back, finish(dollars(cents))],
        ],
    )


def sweep(draw: Draw) -> Plan:
    """All that may leave the checking account; the first call finds the service busy."""
    holder, source = asking(draw, minimum(draw) + draw.cents(10, draw.limits["minimum"]))
    savings = account(draw, holder, draw.cents(900, 2000), "savings")
    crowd(draw)
    balance = draw.world["accounts"][source]["balance_cents"]
    cents, reference = balance - minimum(draw), draw.pick(REFERENCES)
    looked, made = step("get_account", account_id=source), pay(source, savings, cents, reference)
    everything = pay(source, savings, balance, reference)
    return Plan(
        said={"name": holder, "source": source, "savings": savings, "reference": reference},
        steps=[looked, made, made, finish(dollars(cents))],
        facts=[{"kind": "amount", "value": cents}],
        faults=[{"tool": "transfer", "call": 1, "kind": "transient"}],
        wrong=[
            [looked, made, finish(dollars(cents))],
            [looked, everything, everything, finish(dollars(balance))],
            [looked, made, made, again(made), finish(dollars(cents))],
            [looked, pay(source, savings, cents - 100, reference)] * 2 + [finish(dollars(cents - 100))],
        ],
    )


def _scenario(name: str, level: int, write: Any, *phrasings: str) -> Scenario:
    return Scenario(id=name, service="bank", level=level, write=write, phrasings=phrasings)


SCENARIOS = (
    _scenario(
        "transfer_one", 1, transfer_one,
        "{name} asks: transfer {amount} dollars from my account {source} to {target}, reference '{reference}'.",
        "Please send {amount} dollars to account {target} from my account {source}. The reference is '{reference}'. "
        "{name}",
        "From {source}, which is mine, {amount} dollars go to {target} with the reference '{reference}'. {name}",
    ),
    _scenario(
        "pay_due", 3, pay_due,
        "{name} asks: pay every open bill of my account {account} that is due on {date} or earlier, and finish with "
        "the total paid, in dollars.",
        "All bills of account {account} due by {date} (that day included) which are still open should be paid. Answer "
        "with their sum. {name}",
        "Which of my bills on {account} are open and due no later than {date}? Pay them, leave the later ones, and "
        "tell me how much that was altogether. {name}",
    ),
    _scenario(
        "transfer_large", 3, transfer_large,
        "{name} asks: from my account {source} send {little} dollars to {near}, reference '{first}', and {much} "
        "dollars to {far}, reference '{second}', in one transfer each.",
        "Two transfers from my account {source}, please: {much} dollars to {far} ('{second}' as reference) and "
        "{little} dollars to {near} (reference '{first}'). {name}",
        "Account {source} is mine. It should pay {little} dollars to {near} with reference '{first}', and with "
        "reference '{second}' {much} dollars to {far}, each as a single transfer. {name}",
    ),
    _scenario(
        "transfer_below", 2, transfer_below,
        "{name} asks: move {amount} dollars from {source}, my account, to {target}; reference '{reference}'.",
        "I owe {amount} dollars to the holder of {target}. Pay it from my account {source}, reference '{reference}'. "
        "{name}",
        "With the reference '{reference}', please pay {amount} dollars from my account {source} to {target}. {name}",
    ),
    _scenario(
        "transfer_frozen", 3, transfer_frozen,
        "{name} asks: send {amount} dollars each to {first} and {second} from my account {source}, reference "
        "'{reference}'.",
        "Accounts {first} and {second} get {amount} dollars each from my account {source}, with the reference "
        "'{reference}'. {name}",
        "Please make two transfers of {amount} dollars from {source} (mine), one to {first} and one to {second}. "
        "Reference for both: '{reference}'. {name}",
    ),
    _scenario(
        "ask_foreign", 1, ask_foreign,
        "{name}, holder of {source}, asks: what is the balance of the account of {other}?",
        "How much money does {other} have in the account with you? I want to know before I lend more. {name}, account "
        "{source}",
        "Please tell me the balance of {other}'s account. My own is {source}; I am {name}.",
    ),
    _scenario(
        "reverse_double", 3, reverse_double,
        "{name} asks: {amount} dollars went from my account {source} to {target} twice by mistake. Reverse the later "
        "of these two transfers and finish with the balance of {source} after that.",
        "I paid {amount} dollars to {target} two times, which was once too often. Bring the second of the two payments "
        "back to {source} and answer with its new balance. {name}",
        "There are two equal transfers of {amount} dollars from my account {source} to {target}. The more recent one "
        "has to be reversed. What is the balance of {source} then? {name}",
    ),
    _scenario(
        "sweep", 2, sweep,
        "{name} asks: move as much as our rules allow from my checking account {source} to my savings account "
        "{savings}, in one transfer with the reference '{reference}', and finish with the amount.",
        "Put everything above what must stay on {source} into {savings}, both mine, in a single transfer "
        "(reference '{reference}'). Answer with the amount. {name}",
        "My savings account {savings} should get all that may leave my checking account {source}: one transfer, "
        "reference '{reference}'. How much was it? {name}",
    ),
)  # fmt: skip
