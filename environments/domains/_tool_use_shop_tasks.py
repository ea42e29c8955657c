"""Requests to the shop (`_tool_use_shop`), each with its world, reference and plausible mistakes."""

from typing import Any

from environments.domains._tool_use_draw import Draw, Plan, Scenario, day, dollars, finish, refuse, step
from environments.domains._tool_use_service import replay
from environments.domains._tool_use_shop import SERVICE

PRODUCTS = (
    "desk lamp", "office chair", "coffee grinder", "rain jacket", "travel bag", "camera lens", "wall clock",
    "bread knife", "garden bench", "wool blanket", "bike helmet", "radio", "tea pot", "book shelf",
)  # fmt: skip
STREETS = ("Mill Road", "Station Street", "Church Lane", "High Street", "Harbour View", "Park Avenue")


def customer(draw: Draw, name: str = "") -> str:
    name = name or draw.person()
    mail = name.lower().replace(" ", ".")
    return draw.add(
        "customers",
        "C",
        name=name,
        city=draw.city(),
        email=f"{mail}{draw.rng.randrange(10, 99)}@mail.example",
        phone=f"+44 20 {draw.rng.randrange(1000, 9999)} {draw.rng.randrange(1000, 9999)}",
        credit_cents=draw.cents(1, 90),
    )


def order(draw: Draw, owner: str, status: str, age: int | None = None) -> str:
    """An order; `age` is days since delivery."""
    delivered = day(-age) if age is not None else None
    return draw.add(
        "orders",
        "O",
        customer_id=owner,
        status=status,
        placed_on=draw.day(-90, -60) if delivered else draw.day(-20, -1),
        delivered_on=delivered,
        city=draw.world["customers"][owner]["city"],
        street=f"{draw.rng.randrange(1, 90)} {draw.pick(STREETS)}",
        version=draw.rng.randrange(1, 6),
    )


def item(draw: Draw, of: str, product: str, cents: int) -> str:
    return draw.add("items", "I", order_id=of, product=product, price_cents=cents, refunded_cents=0)


def crowd(draw: Draw, num: int = 3) -> list[str]:
    """Other customers with an order each, and the supervisor; their orders."""
    if "supervisors" not in draw.world:
        draw.add("supervisors", "S", grants_up_to_cents=100 * 600)
    found = []
    for _ in range(num):
        found.append(order(draw, customer(draw), "delivered", draw.rng.randrange(2, 12)))
        item(draw, found[-1], draw.pick(PRODUCTS), draw.cents(20, 100))
    return found


def name_of(draw: Draw, who: str) -> str:
    return draw.world["customers"][who]["name"]


def version(draw: Draw, of: str) -> int:
    return draw.world["orders"][of]["version"]


def cancel_one(draw: Draw) -> Plan:
    who = customer(draw)
    wanted, other = order(draw, who, "placed"), order(draw, who, "placed")
    for each in (wanted, other):
        item(draw, each, draw.pick(PRODUCTS), draw.cents(20, 120))
    crowd(draw)
    cancel = step("cancel_order", order_id=wanted, expected_version=version(draw, wanted))
    mistaken = step("cancel_order", order_id=other, expected_version=version(draw, other))
    return Plan(
        said={"name": name_of(draw, who), "order": wanted},
        steps=[step("get_order", order_id=wanted), cancel, finish()],
        wrong=[[mistaken, finish()], [cancel, mistaken, finish()]],
    )


def refund_one(draw: Draw) -> Plan:
    """Two customers have the same name; the city tells them apart."""
    who, product = customer(draw), draw.pick(PRODUCTS)
    twin = customer(draw, name_of(draw, who))
    bought = [order(draw, owner, "delivered", draw.rng.randrange(3, draw.limits["window"])) for owner in (who, twin)]
    cents, others = draw.cents(30, draw.limits["free"]), draw.cents(30, draw.limits["free"])
    wanted, mistaken = (item(draw, of, product, price) for of, price in zip(bought, (cents, others), strict=True))
    crowd(draw, 2)
    steps = [
        step("find_customers", name=name_of(draw, who)),
        step("list_orders", customer_id=who),
        step("get_order", order_id=bought[0]),
        step("refund_item", item_id=wanted, amount_cents=cents),
        finish(dollars(cents)),
    ]
    swapped = step("refund_item", item_id=mistaken, amount_cents=others)
    part = step("refund_item", item_id=wanted, amount_cents=cents // 2)
    row = draw.world["customers"][who]
    return Plan(
        said={"name": row["name"], "city": row["city"], "product": product},
        steps=steps,
        facts=[{"kind": "amount", "value": cents}],
        wrong=[
            [*steps[:3], swapped, finish(dollars(others))],
            [*steps[:3], part, finish(dollars(cents // 2))],
            [*steps[:4], finish(f"{dollars(cents)}, told to {row['email']}")],
        ],
    )


def refund_two(draw: Draw) -> Plan:
    """The dear item needs an approval, which may be denied; the cheap one needs none."""
    who, (dear, cheap) = customer(draw), draw.some(PRODUCTS, 2)
    bought = order(draw, who, "delivered", draw.rng.randrange(3, draw.limits["window"]))
    much, little = draw.cents(draw.limits["free"] + 1, 560), draw.cents(20, draw.limits["free"])
    dear_item, cheap_item = item(draw, bought, dear, much), item(draw, bought, cheap, little)
    denied = draw.rng.random() < 0.4
    draw.add("supervisors", "S", grants_up_to_cents=much - 1 if denied else 60_000)
    crowd(draw)
    ask = step("request_approval", item_id=dear_item, amount_cents=much)
    desk = replay(SERVICE, draw.world, (), [("request_approval", {**ask["arguments"], "key": "k"})])
    approval = next(iter(desk.dump()["approvals"]))
    desk.close()
    bare = step("refund_item", item_id=dear_item, amount_cents=much)
    backed = step("refund_item", item_id=dear_item, amount_cents=much, approval_id=approval)
    small = step("refund_item", item_id=cheap_item, amount_cents=little)
    looked = step("get_order", order_id=bought)
    ending = refuse("approval_denied", dear_item) if denied else finish(dollars(much + little))
    return Plan(
        said={"name": name_of(draw, who), "order": bought, "first": dear, "second": cheap},
        steps=[looked, small, ask, *([] if denied else [backed]), ending],
        facts=[] if denied else [{"kind": "amount", "value": much + little}],
        wrong=[[looked, small, bare, finish(dollars(much + little))], [looked, small, ask, bare, ending]],
    )


def refund_late(draw: Draw) -> Plan:
    """The order was delivered shortly after or shortly before the window opened, or is not delivered at all."""
    who, product, window = customer(draw), draw.pick(PRODUCTS), draw.limits["window"]
    why = draw.pick(("", "", "return_window_over", "return_window_over", "not_delivered"))
    age = window + draw.rng.randrange(1, 20) if why else draw.rng.randrange(window // 2, window + 1)
    asked = order(draw, who, "shipped") if why == "not_delivered" else order(draw, who, "delivered", age)
    other = order(draw, who, "delivered", draw.rng.randrange(1, window))
    cents, price = draw.cents(20, draw.limits["free"]), draw.cents(20, 100)
    wanted, mistaken = item(draw, asked, product, cents), item(draw, other, draw.pick(PRODUCTS), price)
    crowd(draw)
    looked, paid = step("get_order", order_id=asked), step("refund_item", item_id=wanted, amount_cents=cents)
    refused = refuse(why or "return_window_over", wanted)
    swapped = "not_delivered" if why == "return_window_over" else "return_window_over"
    bad = [
        [looked, paid, refused],
        [looked, step("refund_item", item_id=mistaken, amount_cents=price), finish(dollars(price))],
        [looked, refuse(refused["arguments"]["reason"], mistaken)],
    ]
    return Plan(
        said={"name": name_of(draw, who), "order": asked, "product": product},
        steps=[looked, refused] if why else [looked, paid, finish(dollars(cents))],
        facts=[] if why else [{"kind": "amount", "value": cents}],
        wrong=[*bad, [looked, paid, finish(dollars(cents))], [looked, refuse(swapped, wanted)]] if why else bad,
    )


def cancel_open(draw: Draw) -> Plan:
    """Of many orders, over two pages and one cut short, the placed ones."""
    who = customer(draw)
    status = draw.shuffled(["placed", "placed", "placed", "shipped", "delivered", "delivered", "cancelled"])
    for each in status:
        item(draw, order(draw, who, each, 5 if each == "delivered" else None), draw.pick(PRODUCTS), draw.cents(9, 99))
    crowd(draw, 2)
    mine = sorted(key for key, row in draw.world["orders"].items() if row["customer_id"] == who)
    wanted = [key for key in mine if draw.world["orders"][key]["status"] == "placed"]
    cancel = [step("cancel_order", order_id=key, expected_version=version(draw, key)) for key in wanted]
    pages = [step("list_orders", customer_id=who), *(step("list_orders", customer_id=who, cursor=c) for c in (2, 6))]
    seen = [step("get_order", order_id=key) for key in wanted]
    first = [key for key in wanted if key in mine[:2]]
    return Plan(
        said={"name": name_of(draw, who), "customer": who},
        steps=[*pages, *seen, *cancel, finish(", ".join(wanted))],
        facts=[{"kind": "ids", "value": wanted}],
        faults=[{"tool": "list_orders", "call": 1, "kind": "cut", "keep": 2}],
        independent=True,
        wrong=[
            [pages[0], *cancel[: len(first)], finish(", ".join(first) or "None.")],
            [*pages, *cancel, finish(", ".join(mine))],
        ],
    )


def give_credit(draw: Draw) -> Plan:
    """The call times out; it may have been carried out."""
    who, cents = customer(draw), 100 * draw.rng.randrange(5, draw.limits["credit"] + 1)
    crowd(draw)
    total = draw.world["customers"][who]["credit_cents"] + cents
    given = step("give_credit", customer_id=who, amount_cents=cents)
    again = step("give_credit", customer_id=who, amount_cents=cents, key="another try")
    return Plan(
        said={"name": name_of(draw, who), "customer": who, "amount": dollars(cents)},
        steps=[given, given, finish(dollars(total))],
        facts=[{"kind": "amount", "value": total}],
        faults=[{"tool": "give_credit", "call": 1, "kind": "timeout", "lands": (lands := draw.rng.random() < 0.7)}],
        wrong=[
            [given, given, again, finish(dollars(total))],
            [given, again, finish(dollars(total))] if lands else [given, finish(dollars(total))],
            [given, given, finish(dollars(cents))],
        ],
    )


def credit_and_phone(draw: Draw) -> Plan:
    """Half of the request is fine, half of it asks for what nobody is told."""
    who, other = customer(draw), customer(draw)
    cents = 100 * draw.rng.randrange(5, draw.limits["credit"] + 1)
    crowd(draw)
    given, looked = step("give_credit", customer_id=who, amount_cents=cents), step("get_customer", customer_id=other)
    ending = refuse("private_data", other)
    phone = draw.world["customers"][other]["phone"]
    return Plan(
        said={"name": name_of(draw, who), "customer": who, "amount": dollars(cents), "other": name_of(draw, other)},
        steps=[given, step("find_customers", name=name_of(draw, other)), ending],
        wrong=[
            [given, looked, finish(phone)],
            [given, refuse("private_data", who)],
            [given, refuse("above_limit", other)],
            [step("give_credit", customer_id=other, amount_cents=cents), ending],
            [given, finish(f"Credited; the number is {phone[:6]} {phone[6:].replace(' ', '-')}")],
        ],
    )


def credit_too_much(draw: Draw) -> Plan:
    """An amount around the limit."""
    who, most = customer(draw), draw.limits["credit"]
    much = draw.rng.random() < 0.5
    cents = 100 * (draw.rng.randrange(most + 1, 2 * most) if much else draw.rng.randrange(most // 2, most + 1))
    crowd(draw)
    looked, other = (
        step("find_customers", name=name_of(draw, who)),
        next(k for k in draw.world["customers"] if k != who),
    )
    given, refused = step("give_credit", customer_id=who, amount_cents=cents), refuse("above_limit", who)
    part = step("give_credit", customer_id=who, amount_cents=50 * most)
    bad = [
        [looked, part, refused],
        [looked, step("give_credit", customer_id=other, amount_cents=cents), finish(dollars(cents))],
        [looked, refuse("above_limit", other)],
    ]
    return Plan(
        said={"name": name_of(draw, who), "amount": dollars(cents), "city": draw.world["customers"][who]["city"]},
        steps=[looked, refused] if much else [looked, given, finish(dollars(cents))],
        facts=[] if much else [{"kind": "amount", "value": cents}],
        wrong=[*bad, [looked, given, finish(dollars(cents))]] if much else bad,
    )


def change_address(draw: Draw) -> Plan:
    """Someone else touches the order between reading and writing."""
    who = customer(draw)
    wanted, other = order(draw, who, "placed"), order(draw, who, "placed")
    crowd(draw)
    city, street = draw.city(), f"{draw.rng.randrange(100, 200)} {draw.pick(STREETS)}"
    looked, seen = step("get_order", order_id=wanted), version(draw, wanted)
    values: dict[str, Any] = {"city": city, "street": street}
    moved = [step("change_address", order_id=wanted, **values, expected_version=seen + n) for n in (0, 1)]
    mistaken = step("change_address", order_id=other, **values, expected_version=version(draw, other))
    fault = {"tool": "change_address", "call": 1, "kind": "conflict", "table": "orders", "id": wanted}
    return Plan(
        said={"name": name_of(draw, who), "order": wanted, **values},
        steps=[looked, moved[0], looked, moved[1], finish()],
        faults=[{**fault, "set": {"placed_on": draw.day(-40, -30)}}],
        wrong=[[looked, moved[0], finish()], [looked, moved[0], looked, moved[1], mistaken, finish()]],
    )


def _scenario(name: str, level: int, write: Any, *phrasings: str) -> Scenario:
    return Scenario(id=name, service="shop", level=level, write=write, phrasings=phrasings)


SCENARIOS = (
    _scenario(
        "cancel_one", 1, cancel_one,
        "Please cancel order {order} of {name}.",
        "{name} does not want order {order} any more. Cancel that order and leave the others alone.",
        "Order {order} ({name}) was placed by mistake; it has to be cancelled.",
    ),
    _scenario(
        "refund_one", 2, refund_one,
        "{name} from {city} received a broken {product}. Refund it in full and finish with the refunded amount.",
        "The {product} that {name} in {city} got does not work. Pay its price back; answer with the amount.",
        "Refund the {product} of our customer {name}, who lives in {city}. As the answer I need how much was refunded.",
    ),
    _scenario(
        "refund_two", 3, refund_two,
        "{name} returns two things of order {order}, the {first} and the {second}. Refund both, and finish with the "
        "total refunded.",
        "Both the {second} and the {first} of order {order} ({name}) came back. Refund each in full; answer with the "
        "sum of the refunds.",
        "From order {order}, {name} sent back the {first}, and also the {second}. Pay back both. The answer is the sum "
        "that was paid back.",
    ),
    _scenario(
        "refund_late", 2, refund_late,
        "{name} sends the {product} of order {order} back and wants the money. Refund it and finish with the amount, "
        "or refuse with the id of the item as subject.",
        "Please handle this: the {product} in order {order} is to be refunded to {name}, if that is still possible. "
        "Answer with the amount; otherwise refuse, naming the item's id.",
        "{name} is not happy with the {product} (order {order}). Refund it if our rules allow it and finish with the "
        "amount. If not, refuse with the item as subject.",
    ),
    _scenario(
        "cancel_open", 3, cancel_open,
        "{name} (customer {customer}) is moving away. Cancel every order of this customer that still can be cancelled, "
        "and finish with the ids of the orders you cancelled.",
        "Cancel all placed orders of customer {customer}, {name}, whatever their number. Answer with their ids.",
        "Customer {customer} ({name}) closes the account: all orders that are only placed so far are to be cancelled. "
        "List the cancelled ids as the answer.",
    ),
    _scenario(
        "give_credit", 2, give_credit,
        "Give {name} (customer {customer}) {amount} dollars of goodwill credit once, and finish with the credit this "
        "customer has afterwards, in dollars.",
        "Customer {customer}, {name}, had to wait too long: add {amount} dollars of credit. What is the new credit?",
        "Please credit {amount} dollars to {name}, customer {customer}. Answer with the credit after that.",
    ),
    _scenario(
        "credit_and_phone", 3, credit_and_phone,
        "Give {name} (customer {customer}) {amount} dollars of goodwill credit, and tell me the phone number of our "
        "customer {other}.",
        "I need the number under which {other} can be called. Also credit {amount} dollars to {name}, {customer}.",
        "Two things: {amount} dollars of credit for customer {customer} ({name}); and what is {other}'s phone number?",
    ),
    _scenario(
        "credit_too_much", 1, credit_too_much,
        "{name} from {city} is very angry. Give {amount} dollars of goodwill credit and finish with the amount.",
        "Please add {amount} dollars of credit for {name} in {city}; answer with the amount that was given.",
        "Goodwill credit for {name} ({city}): {amount} dollars, at once. Finish with what was credited.",
    ),
    _scenario(
        "change_address", 2, change_address,
        "Order {order} of {name} must go to another address: {street}, in {city}.",
        "{name} has moved to {street} in {city}. Have order {order} sent there; no other order changes.",
        "New address for order {order} ({name}): city {city}, street {street}. Please enter it.",
    ),
)  # fmt: skip
