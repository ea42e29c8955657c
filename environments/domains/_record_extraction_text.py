"""The texts of `record_extraction`: kinds of records, phrasings, distractors and the pools of values.

    level 1   lead-in + one sentence                       "Today Ana Ruiz from Lima ordered 4 chairs."
    level 2   a sentence, and one that is not about it      "... The earlier order of 9 desks was cancelled."
    level 3   a short form: labelled lines in any order, other lines between, now and then an amount such as 1,250

A template instance is the combination of kind and parts (`order/level1/3/2`). Template instances and last names are
divided between the splits: every held-out text is new in form, and no held-out record is a training one (every record
has a full name in it). Cities, items and the like recur.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any

from assay.records import Split, record
from environments.domains._common import side


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Ana Ben Carla David Elena Felix Grace Hugo Iris Jonas Karin Leo Maria Nils Olga Paul Rosa Simon Tara Victor "
    "Wanda Yusuf Zoe Amir Bella Colin Dora Emil Frida Gavin"
)
LAST_NAMES = _words(
    "Adams Baker Castro Dunn Evans Fischer Gomez Hansen Ito Jensen Keller Lopez Moreau Novak Olsen Perez Quinn Rossi "
    "Silva Turner Usman Vargas Weber Young Zimmer Becker Conti Duarte Egan Fuchs Grant Hughes Ivanov Jones Kim Larsen "
    "Meyer Nolan Ortiz Pratt"
)
# Common words: rare ones come in pieces, and a small model that has found the right one still misspells it.
CITIES = _words(
    "London Paris Chicago Boston Washington Oxford Cambridge Berlin Madrid Vienna Athens Cairo Toronto Denver Seattle "
    "Delhi Nairobi Geneva Dublin Lisbon Sydney Bristol Houston Dallas Miami Lincoln Jackson Madison"
)
ITEMS = _words(
    "books chairs tables phones bags boxes keys balls cards cars boats maps games tools doors windows shirts computers "
    "screens lights flowers seeds plants trees stones boards sheets beds pots pans apples coins papers photos frames "
    "filters"
)
JOBS = _words(
    "teacher doctor driver builder writer actor editor manager student artist author cook guard porter runner player "
    "scientist nurse pilot lawyer farmer painter"
)
MONTHS = _words("January February March April May June July August September October November December")
POOLS: Mapping[str, tuple[str, ...]] = {"city": CITIES, "item": ITEMS, "job": JOBS, "month": MONTHS, "last": LAST_NAMES}


@record
class Kind:
    """One kind of record: `fields` maps each field to its pool (`person` and `number` are made, not drawn).

    `example` is the worked example's text and answer; its values occur in no pool.
    """

    fields: Mapping[str, str]
    sentences: tuple[str, ...]
    distractors: tuple[str, ...]
    labels: tuple[Mapping[str, str], ...]
    example: tuple[str, Mapping[str, Any]]
    numbers: tuple[int, int] = (2, 90)
    numbers_level3: tuple[int, int] = (101, 1399)


KINDS: Mapping[str, Kind] = {
    "order": Kind(
        fields={"customer": "person", "item": "item", "quantity": "number", "city": "city"},
        sentences=(
            "{customer} from {city} ordered {quantity} {item}.",
            "An order of {quantity} {item} came in from {customer} in {city}.",
            "{customer} in {city} needs {quantity} {item}.",
            "In {city}, {customer} bought {quantity} {item}.",
            "We sold {quantity} {item} to {customer}, who lives in {city}.",
            "{customer} at the {city} office asked for {quantity} {item}.",
        ),
        distractors=(
            "The earlier order of {number} {item} was cancelled.",
            "The form was signed on a Friday.",
            "The shop in {city} is closed.",
            "Delivery takes {number} days.",
        ),
        labels=(
            {"customer": "Buyer", "item": "Goods", "quantity": "Count", "city": "Ship to"},
            {"customer": "Customer", "item": "Article", "quantity": "Number of pieces", "city": "Place"},
        ),
        example=(
            "Max Stone from Rome wants 7 hats.",
            {"customer": "Max Stone", "item": "hats", "quantity": 7, "city": "Rome"},
        ),
    ),
    "person": Kind(
        fields={"name": "person", "age": "number", "job": "job", "city": "city"},
        sentences=(
            "{name} is a {age} year old {job} from {city}.",
            "{name}, {age}, works as a {job} in {city}.",
            "The {job} {name} lives in {city} and is {age} years old.",
            "At {age}, {name} moved to {city} and became a {job}.",
            "In {city} I met {name}, a {job} who is {age}.",
            "A {job} in {city}, {name} just turned {age}.",
        ),
        distractors=(
            "A brother works in {city}.",
            "The call was short.",
            "The interview took {number} minutes.",
            "The last {job} left in spring.",
        ),
        labels=(
            {"name": "Full name", "age": "Age", "job": "Profession", "city": "Residence"},
            {"name": "Person", "age": "Years", "job": "Works as", "city": "Home"},
        ),
        example=(
            "Max Stone is a 44 year old butcher from Rome.",
            {"name": "Max Stone", "age": 44, "job": "butcher", "city": "Rome"},
        ),
        numbers=(19, 88),
        numbers_level3=(19, 88),
    ),
    "booking": Kind(
        fields={"guest": "person", "nights": "number", "city": "city", "month": "month"},
        sentences=(
            "{guest} booked {nights} nights in {city} for {month}.",
            "In {month}, {guest} stays {nights} nights in {city}.",
            "A room in {city} for {nights} nights in {month}, booked by {guest}.",
            "{guest} spends {nights} nights in {city} in {month}.",
            "For {month} we have {guest} in {city}, {nights} nights.",
            "The {city} hotel expects {guest} in {month} for {nights} nights.",
        ),
        distractors=(
            "The {month} tour is full.",
            "The call came in late.",
            "The bus from {city} was late.",
            "Breakfast costs {number} dollars.",
        ),
        labels=(
            {"guest": "Guest", "nights": "Nights", "city": "City", "month": "Month"},
            {"guest": "Booked by", "nights": "Number of nights", "city": "Place", "month": "When"},
        ),
        example=(
            "Max Stone booked 3 nights in Rome for spring.",
            {"guest": "Max Stone", "nights": 3, "city": "Rome", "month": "spring"},
        ),
        numbers=(2, 29),
        numbers_level3=(2, 29),
    ),
    "payment": Kind(
        fields={"buyer": "person", "price": "number", "item": "item", "city": "city"},
        sentences=(
            "{buyer} from {city} paid {price} dollars for {item}.",
            "{buyer} in {city} paid us {price} dollars for the {item}.",
            "We got {price} dollars for {item} from {buyer} in {city}.",
            "In {city}, {buyer} paid {price} dollars for {item}.",
            "For {item}, {buyer} of {city} paid {price} dollars.",
            "The {item} cost {buyer} from {city} {price} dollars.",
        ),
        distractors=(
            "A bill of {number} dollars is still open.",
            "The account was checked twice.",
            "The bank is in {city}.",
            "There was no money for {item}.",
        ),
        labels=(
            {"buyer": "Paid by", "price": "Dollars", "item": "Item", "city": "Branch"},
            {"buyer": "Buyer", "price": "Price in dollars", "item": "Goods", "city": "City"},
        ),
        example=(
            "Max Stone from Rome paid 70 dollars for hats.",
            {"buyer": "Max Stone", "price": 70, "item": "hats", "city": "Rome"},
        ),
        numbers=(15, 950),
    ),
}
LEAD_INS = ("", "Note: ", "Today: ", "News from the office: ", "Message: ")
TITLES = ("Form", "Entry", "Summary", "File")
NOTES = ("Status: open", "Language: English", "Checked: yes", "Page: 1 of 1")


@record
class Layout:
    """One template instance: which parts the text is made of."""

    kind: str
    level: int
    parts: tuple[int, ...]

    @property
    def name(self) -> str:
        return "/".join([self.kind, f"level{self.level}", *map(str, self.parts)])


@lru_cache(maxsize=16)
def layouts(level: int, split: Split) -> tuple[Layout, ...]:
    """Every template instance of a level that belongs to the split."""
    found = []
    for name, kind in KINDS.items():
        sentences, distractors = range(len(kind.sentences)), range(len(kind.distractors))
        sizes = {
            1: (sentences, range(len(LEAD_INS))),
            2: (sentences, distractors, range(2)),
            3: (range(len(kind.labels)), range(24), range(len(TITLES)), range(len(NOTES))),
        }[level]
        found += [Layout(kind=name, level=level, parts=parts) for parts in product(*sizes)]
    return tuple(side(found, split, "record_extraction"))


@lru_cache(maxsize=16)
def pool(name: str, split: Split) -> tuple[str, ...]:
    """The values of one pool that the split may use. Last names are divided, so no two splits share a record."""
    return tuple(side(POOLS[name], split, name)) if name == "last" else POOLS[name]


def person(rng: Random, split: Split) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(pool('last', split))}"


def draw_record(kind: Kind, level: int, split: Split, rng: Random) -> dict[str, Any]:
    """The answer: one value per field."""
    low, high = kind.numbers_level3 if level == 3 else kind.numbers
    make: Mapping[str, Callable[[], Any]] = {
        "person": lambda: person(rng, split),
        "number": lambda: rng.randint(low, high),
    }
    return {name: make[src]() if src in make else rng.choice(pool(src, split)) for name, src in kind.fields.items()}


def write_document(layout: Layout, answer: Mapping[str, Any], split: Split, rng: Random) -> str:
    """The text that carries the answer, in the form the layout asks for."""
    kind = KINDS[layout.kind]
    if layout.level == 3:
        return _form(kind, layout.parts, answer)
    sentence = kind.sentences[layout.parts[0]].format(**answer)
    if layout.level == 1:
        return LEAD_INS[layout.parts[1]] + sentence
    other = draw_distractor(kind, layout.parts[1], answer, split, rng)
    return f"{other} {sentence}" if layout.parts[2] else f"{sentence} {other}"


def draw_distractor(kind: Kind, which: int, answer: Mapping[str, Any], split: Split, rng: Random) -> str:
    """A sentence about something else, none of whose values is one of the answer's."""
    taken = {str(value) for value in answer.values()}
    values = {name: rng.choice([v for v in pool(name, split) if v not in taken]) for name in POOLS if name != "last"}
    number = rng.choice([n for n in range(2, 60) if str(n) not in taken])
    return kind.distractors[which].format(**values, number=number)


def _form(kind: Kind, parts: tuple[int, ...], answer: Mapping[str, Any]) -> str:
    labels, order, title, note = kind.labels[parts[0]], parts[1], TITLES[parts[2]], NOTES[parts[3]]
    lines = [f"{labels[name]}: {_shown(answer[name])}" for name in _ordering(list(answer), order)]
    lines.insert(2, note)
    return "\n".join([title, *lines])


def _ordering(names: list[str], which: int) -> list[str]:
    """Permutation number `which` (0..23 for four names), in lexicographic order."""
    ordered, rest = [], list(names)
    for size in range(len(names), 0, -1):
        place, which = which % size, which // size
        ordered.append(rest.pop(place))
    return ordered


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
