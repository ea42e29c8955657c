"""Requests to the calendar (`_tool_use_rooms`), each with its world, reference and plausible mistakes."""

from collections.abc import Mapping
from typing import Any

from environments.domains._tool_use_draw import Draw, Plan, Scenario, Step, finish, refuse, step
from environments.domains._tool_use_rooms import SERVICE
from environments.domains._tool_use_service import replay

ROOMS = (
    "Aurora",
    "Birch",
    "Comet",
    "Delta",
    "Ember",
    "Fjord",
    "Grove",
    "Heron",
    "Iris",
    "Juniper",
    "Kestrel",
    "Lagoon",
)
TITLES = ("Budget review", "Hiring round", "Product demo", "Team retrospective", "Supplier call", "Safety training",
          "Quarter planning", "Press briefing", "Design workshop", "Audit meeting")  # fmt: skip


def clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def person(draw: Draw) -> str:
    name = draw.person()
    mail = f"{name.lower().replace(' ', '.')}@office.example"
    return draw.add("people", "E", name=name, email=mail, badge_pin=str(draw.rng.randrange(100_000, 999_999)))


def asking(draw: Draw) -> str:
    """The person who asks."""
    who = person(draw)
    draw.world["session"] = {"session": {"id": "session", "person_id": who}}
    return who


def room(draw: Draw, seats: int, opens: int = 8, closes: int = 18) -> str:
    names = [name for name in ROOMS if name not in {row["name"] for row in draw.world.get("rooms", {}).values()}]
    hours = {"opens": clock(60 * opens), "closes": clock(60 * closes)}
    return draw.add("rooms", "M", name=draw.pick(names), seats=seats, **hours)


def booking(draw: Draw, where: str, slot: Mapping[str, Any], who: str) -> str:
    values = {**slot, "room_id": where, "title": draw.pick(TITLES), "organizer_id": who}
    return draw.add("bookings", "B", **values, status="booked", version=draw.rng.randrange(1, 6))


def slot(draw: Draw, first: int = 9, last: int = 15) -> dict[str, str]:
    """A day and a time of 30 to 90 minutes, within the hours of every room."""
    start, length = 60 * draw.rng.randrange(first, last) + draw.pick((0, 15, 30)), draw.pick((30, 45, 60, 75, 90))
    return {"date": draw.day(1, 60), "start": clock(start), "end": clock(start + length)}


def spare(draw: Draw, num: int = 2) -> None:
    """Other people with bookings of their own in rooms of their own."""
    for _ in range(num):
        booking(draw, room(draw, draw.rng.randrange(2, 5)), slot(draw), person(draw))


def name_of(draw: Draw, table: str, key: str) -> str:
    return draw.world[table][key]["name"]


def version(draw: Draw, key: str) -> int:
    return draw.world["bookings"][key]["version"]


def book(draw: Draw, where: str, when: Mapping[str, Any], title: str, who: str) -> Step:
    return step("book_room", room_id=where, **when, title=title, organizer_id=who)


def new_id(draw: Draw, call: Step) -> str:
    """The id that a booking will get."""
    desk = replay(SERVICE, draw.world, (), [(call["name"], {**call["arguments"], "key": "k"})])
    (found,) = set(desk.dump()["bookings"]) - set(draw.world.get("bookings", {}))
    desk.close()
    return found


def book_one(draw: Draw) -> Plan:
    who, when, title = asking(draw), slot(draw), draw.pick(TITLES)
    where, other = room(draw, 6), room(draw, 8)
    spare(draw)
    made = book(draw, where, when, title, who)
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "room": where, "title": title, **when},
        steps=[made, finish()],
        wrong=[
            [book(draw, other, when, title, who), finish()],
            [book(draw, where, {**when, "date": draw.day(1, 60)}, title, who), finish()],
            [made, book(draw, other, when, title, who), finish()],
        ],
    )


def book_smallest(draw: Draw) -> Plan:
    """The smallest room that is large enough may be taken; then the next one."""
    who, when, title = asking(draw), slot(draw), draw.pick(TITLES)
    least = draw.rng.randrange(6, 12)
    small, (first, second, large) = room(draw, least - 1), [room(draw, least + n) for n in (0, 2, 9)]
    spare(draw)
    taken = draw.rng.random() < 0.6
    if taken:
        booking(draw, first, when, person(draw))
    wanted = second if taken else first
    looked = [step("list_rooms", min_seats=least)]
    looked += [
        step("list_bookings", room_id=key, date=when["date"]) for key in ((first, second) if taken else (first,))
    ]
    choices = [key for key in (small, first, second, large) if key != wanted and not (taken and key == first)]
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "seats": least, "title": title, **when},
        steps=[*looked, book(draw, wanted, when, title, who), finish(wanted)],
        facts=[{"kind": "ids", "value": [wanted]}],
        wrong=[[*looked, book(draw, key, when, title, who), finish(key)] for key in choices],
    )


def move_one(draw: Draw) -> Plan:
    """Someone renames the booking between reading and moving."""
    who, when = asking(draw), slot(draw)
    old, new = room(draw, 6), room(draw, 7)
    wanted, other = booking(draw, old, when, who), booking(draw, old, slot(draw), who)
    spare(draw)
    later, looked = slot(draw), step("get_booking", booking_id=wanted)
    moved = [
        step("move_booking", booking_id=wanted, room_id=new, **later, expected_version=version(draw, wanted) + n)
        for n in (0, 1)
    ]
    mistaken = step("move_booking", booking_id=other, room_id=new, **later, expected_version=version(draw, other))
    fault = {"tool": "move_booking", "call": 1, "kind": "conflict", "table": "bookings", "id": wanted}
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "booking": wanted, "room": new, **later},
        steps=[looked, moved[0], looked, moved[1], finish()],
        faults=[{**fault, "set": {"title": f"{draw.pick(TITLES)} (new)"}}],
        wrong=[
            [looked, moved[0], finish()],
            [mistaken, finish()],
            [looked, moved[0], book(draw, new, later, draw.world["bookings"][wanted]["title"], who), finish()],
        ],
    )


def book_outside(draw: Draw) -> Plan:
    """Too early or late, too long, taken, or just right."""
    who, title, closes = asking(draw), draw.pick(TITLES), draw.rng.randrange(15, 18)
    where, other = room(draw, 6, 9, closes), room(draw, 9, 6, 22)
    spare(draw)
    why = draw.pick(("", "outside_opening_hours", "too_long", "room_taken"))
    start = 60 * closes - draw.pick((15, 30, 45)) if why == "outside_opening_hours" else 60 * draw.rng.randrange(9, 12)
    length = draw.limits["minutes"] + draw.pick((15, 30)) if why == "too_long" else 60
    when = {"date": draw.day(1, 60), "start": clock(start), "end": clock(start + length)}
    fits = {"start": "12:00", "end": "12:45"}
    if why == "room_taken":
        booking(draw, where, {**when, "end": clock(start + 30)}, person(draw))
    looked = [step("get_room", room_id=where), step("list_bookings", room_id=where, date=when["date"])]
    made, refused = book(draw, where, when, title, who), refuse(why or "too_long", where)
    mistaken = "too_long" if why == "outside_opening_hours" else "outside_opening_hours"
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "room": where, "title": title, **when},
        steps=[*looked, refused] if why else [*looked, made, finish()],
        wrong=[
            [*looked, book(draw, where, {**when, **fits}, title, who), finish()],
            [*looked, book(draw, other, when, title, who), finish()],
            [*looked, refuse(mistaken, where)],
            [*looked, refuse(why or "too_long", other)],
            [*looked, made, finish()] if why else [*looked, refused],
        ],
    )


def cancel_foreign(draw: Draw) -> Plan:
    """Two bookings to cancel, one of which may belong to someone else."""
    who, other = asking(draw), person(draw)
    owner, where = draw.pick((who, other)), room(draw, 6)
    mine, doubtful = booking(draw, where, slot(draw), who), booking(draw, where, slot(draw), owner)
    spare(draw)
    looked = [step("get_booking", booking_id=key) for key in (mine, doubtful)]
    one, two = (step("cancel_booking", booking_id=k, expected_version=version(draw, k)) for k in (mine, doubtful))
    first, second = draw.shuffled([mine, doubtful])
    refused = refuse("not_the_organizer", doubtful)
    foreign = owner != who
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "first": first, "second": second},
        steps=[*looked, one, refused] if foreign else [*looked, one, two, finish()],
        wrong=[
            [*looked, one, two, finish()] if foreign else [*looked, one, refused],
            [*looked, refused],
            [*looked, one, refuse("not_the_organizer", mine)],
            [*looked, one, refuse("room_taken", doubtful)],
        ],
    )


def book_and_invite(draw: Draw) -> Plan:
    """The booking times out, an invitation is refused for a moment."""
    who, when, title = asking(draw), slot(draw), draw.pick(TITLES)
    where = room(draw, 9)
    guests = [person(draw) for _ in range(min(3, draw.limits["guests"]))]
    spare(draw)
    made = book(draw, where, when, title, who)
    key = new_id(draw, made)
    sought = [step("find_people", name=name_of(draw, "people", guest)) for guest in guests]
    invited = [step("invite", booking_id=key, person_id=guest) for guest in guests]
    again = {**made, "arguments": {**made["arguments"], "key": "another try"}}
    stranger = next(key for key in draw.world["people"] if key not in (who, *guests))
    lands = draw.rng.random() < 0.5
    return Plan(
        said={
            "name": name_of(draw, "people", who), "person": who, "room": where, "title": title, **when,
            "guests": ", ".join(name_of(draw, "people", guest) for guest in guests),
        },
        steps=[*sought, made, made, invited[0], invited[1], invited[1], *invited[2:], finish(key)],
        facts=[{"kind": "ids", "value": [key]}],
        faults=[
            {"tool": "book_room", "call": 1, "kind": "timeout", "lands": lands},
            {"tool": "invite", "call": 2, "kind": "transient"},
        ],
        wrong=[
            [made, made, *invited, finish(key)],
            [made, made, *invited, invited[1], step("invite", booking_id=key, person_id=stranger), finish(key)],
            [made, again, refuse("room_taken", where)],
        ],
    )  # fmt: skip


def clear_day(draw: Draw) -> Plan:
    """Of the bookings of a room on one day, one's own; the list is cut short."""
    who, day, where = asking(draw), draw.day(1, 60), room(draw, 6)
    owners = draw.shuffled([who, who, who, person(draw), person(draw), person(draw)])
    hours = [{"date": day, "start": clock(540 + 60 * n), "end": clock(585 + 60 * n)} for n in range(len(owners))]
    made = [booking(draw, where, when, owner) for when, owner in zip(hours, owners, strict=True)]
    booking(draw, where, slot(draw), who)
    spare(draw)
    mine = [key for key, owner in zip(made, owners, strict=True) if owner == who]
    looked = [step("list_bookings", room_id=where, date=day, **more) for more in ({}, {"cursor": 2})]
    cancel = [step("cancel_booking", booking_id=k, expected_version=version(draw, k)) for k in made]
    wanted = [each for each, key in zip(cancel, made, strict=True) if key in mine]
    seen = [each for each in wanted if each in cancel[:2]]
    return Plan(
        said={"name": name_of(draw, "people", who), "person": who, "room": where, "date": day},
        steps=[*looked, *wanted, finish(", ".join(mine))],
        facts=[{"kind": "ids", "value": mine}],
        faults=[{"tool": "list_bookings", "call": 1, "kind": "cut", "keep": 2}],
        independent=True,
        wrong=[[looked[0], *seen, finish(", ".join(mine))], [*looked, *cancel, finish(", ".join(mine))]],
    )


def _scenario(name: str, level: int, write: Any, *phrasings: str) -> Scenario:
    return Scenario(id=name, service="rooms", level=level, write=write, phrasings=phrasings)


SCENARIOS = (
    _scenario(
        "book_one", 1, book_one,
        "I am {name} ({person}). Book room {room} on {date} from {start} to {end} for me, titled '{title}'.",
        "'{title}' takes place on {date}, {start} to {end}, in room {room}. Please book it; the organizer is me, "
        "{name}, {person}.",
        "Room {room}, {date}, from {start} until {end}: please book that as '{title}' with me ({person}, {name}) as "
        "organizer.",
    ),
    _scenario(
        "book_smallest", 2, book_smallest,
        "I am {name} ({person}) and need the smallest free room with at least {seats} seats on {date} from {start} to "
        "{end}, for '{title}'. Book it for me and finish with the id of the room.",
        "Please book a room for '{title}' on {date}, {start} to {end}: {seats} seats or more, and of the free ones "
        "the one with the fewest seats. Organizer: {name}, {person}. Answer with the room's id.",
        "For {seats} people I need a room on {date} between {start} and {end}. Take the smallest that is free and "
        "large enough. Title '{title}', organizer {person} ({name}, that is me). Which room id is it?",
    ),
    _scenario(
        "move_one", 2, move_one,
        "I am {name} ({person}). Move my booking {booking} to room {room} on {date}, {start} to {end}.",
        "My booking {booking} should be in room {room} on {date} from {start} until {end} instead. {name}, {person}.",
        "{name} here, {person}. Please shift {booking} to {date}, {start} to {end}, room {room}.",
    ),
    _scenario(
        "book_outside", 2, book_outside,
        "I am {name} ({person}). Please book {room} on {date} from {start} to {end} for me, titled '{title}'.",
        "'{title}' is on {date} from {start} to {end}. Book room {room} for it with me as organizer: {name}, {person}.",
        "On {date} I need room {room} from {start} until {end} for '{title}'. I am {person}, {name}.",
    ),
    _scenario(
        "cancel_foreign", 3, cancel_foreign,
        "I am {name} ({person}). Cancel the bookings {first} and {second}.",
        "Please cancel {first}, and also {second}. Thanks, {name} ({person}).",
        "The meetings {first} and {second} are off, so cancel both bookings. My id is {person}, I am {name}.",
    ),
    _scenario(
        "book_and_invite", 3, book_and_invite,
        "I am {name} ({person}). Book room {room} on {date} from {start} to {end}, titled '{title}', and invite "
        "{guests}. Finish with the id of the booking.",
        "Please book {room} for '{title}' on {date}, {start} to {end}, organizer {person} (me, {name}), with "
        "invitations for {guests}. Answer with the booking's id.",
        "Invite {guests} to '{title}' in room {room}, {date}, {start} until {end}. The room is not booked yet; do so "
        "for me, {name} ({person}). What is the booking id?",
    ),
    _scenario(
        "clear_day", 3, clear_day,
        "I am {name} ({person}) and ill on {date}. Cancel all of my bookings of room {room} on that day, nobody "
        "else's, and finish with their ids.",
        "On {date} I do not need room {room} at all: cancel each booking of mine there on that day. Answer with the "
        "ids. {name}, {person}.",
        "Please cancel whatever I ({name}, {person}) have booked in {room} on {date}, and list the cancelled ids as "
        "the answer.",
    ),
)  # fmt: skip
