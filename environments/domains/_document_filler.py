"""Plausible matter that fills a report up to its length: sections on other subjects, with figures of their own.

Nothing here names a segment, a region or one of the reported figures, so no filler can be mistaken for a place where
an asked figure stands, yet it is full of numbers, dates, names and tables. A million tokens take about a second.
"""

from collections.abc import Callable, Iterator
from random import Random

from environments.domains._document_values import MONTHS

SITES = (
    "Graz", "Turku", "Leuven", "Bergamo", "Ostrava", "Tampere", "Gdynia", "Aalborg", "Linz", "Murcia", "Braga",
    "Trieste", "Malmo", "Plzen", "Nantes", "Ghent", "Kosice", "Rijeka", "Bilbao", "Utrecht", "Lund", "Brno",
    "Lodz", "Varna",
)  # fmt: skip
SUBJECTS = (
    "Energy and water", "Supplier audits", "Occupational safety", "Training and development", "Information security",
    "Logistics", "Maintenance", "Quality management", "Waste and recycling", "Community work", "Tax matters",
    "Insurance", "Leases", "Travel", "Digital projects", "Purchasing", "Warehousing", "Compliance training",
    "Internal audit", "Customer service", "Spare parts", "Laboratories", "Tooling", "Fleet",
)  # fmt: skip
DEPARTMENTS = (
    "the planning department", "the audit committee", "the works engineers", "the purchasing team", "the plant manager",
    "the safety officers", "the project office", "the treasury", "the legal department", "an external consultant",
)  # fmt: skip
THINGS = (
    "conveyor belts", "compressors", "test stands", "storage racks", "cooling towers", "forklifts", "paint booths",
    "gas boilers", "presses", "milling machines", "gateways", "scanners", "pallets", "ventilation units",
)  # fmt: skip
MEASURES = (
    "scrap rate", "share of recycled steel", "lost-time rate", "delivery reliability", "rate of returned parts",
    "machine availability", "share of rail freight", "rate of late invoices",
)  # fmt: skip
CAUSES = (
    "mild weather", "a new shift plan", "longer running times", "a change of supplier", "repairs in summer",
    "stricter limits", "shorter set-up times", "a pilot project", "delays at the port", "better insulation",
)  # fmt: skip
VERBS = ("reviewed", "approved", "examined", "postponed", "completed", "extended", "discussed", "began")
_SENTENCES: tuple[Callable[[Random, int], str], ...] = (
    lambda r, y: (
        f"At the {r.choice(SITES)} site the {r.choice(MEASURES)} moved from {_tenths(r)} to {_tenths(r)} "
        f"percent, mainly because of {r.choice(CAUSES)}."
    ),
    lambda r, y: (
        f"In {r.choice(MONTHS)} {y} {r.choice(DEPARTMENTS)} {r.choice(VERBS)} the replacement of "
        f"{r.randint(3, 60)} {r.choice(THINGS)} in {r.choice(SITES)}."
    ),
    lambda r, y: (
        f"A budget of EUR {r.randint(15, 950)} thousand was set aside for {r.choice(THINGS)}, of which "
        f"{r.randint(20, 95)} percent had been spent by the end of {r.choice(MONTHS)}."
    ),
    lambda r, y: (
        f"Compared with {y - r.randint(2, 5)}, the number of {r.choice(THINGS)} in use fell by "
        f"{r.randint(2, 40)} to {r.randint(41, 400)}."
    ),
    lambda r, y: (
        f"{r.choice(DEPARTMENTS).capitalize()} {r.choice(VERBS)} the findings of {r.randint(2, 30)} visits "
        f"and saw no need for further measures."
    ),
    lambda r, y: (
        f"The contract on {r.choice(THINGS)} for {r.choice(SITES)} runs until {r.choice(MONTHS)} "
        f"{y + r.randint(2, 9)} and can be extended twice."
    ),
    lambda r, y: (
        f"Owing to {r.choice(CAUSES)}, {r.choice(SITES)} and {r.choice(SITES)} shared their "
        f"{r.choice(THINGS)} for {r.randint(2, 30)} weeks."
    ),
    lambda r, y: (
        f"The {r.choice(MEASURES)} is measured monthly; the best month was {r.choice(MONTHS)} with "
        f"{_tenths(r)} percent."
    ),
    lambda r, y: f"No claims were raised in connection with the {r.choice(THINGS)} delivered to {r.choice(SITES)}.",
    lambda r, y: (
        f"{r.choice(CAUSES).capitalize()} had less effect than {r.choice(DEPARTMENTS)} had assumed in "
        f"{r.choice(MONTHS)}."
    ),
    lambda r, y: (
        f"About {r.randint(40, 900)} tonnes of material passed through {r.choice(SITES)} in each of the "
        f"{r.randint(3, 11)} months under review."
    ),
    lambda r, y: f"Work on the {r.choice(THINGS)} took {r.randint(2, 48)} days, {r.randint(1, 20)} fewer than planned.",
    lambda r, y: (
        f"The lease of {r.randint(400, 9000):,} square metres in {r.choice(SITES)} costs EUR "
        f"{r.randint(11, 480)} thousand a year and ends in {y + r.randint(1, 12)}."
    ),
    lambda r, y: (
        f"Of {r.randint(40, 300)} suggestions from the staff in {r.choice(SITES)}, {r.randint(3, 39)} were "
        f"carried out; most concerned the {r.choice(THINGS)}."
    ),
    lambda r, y: (
        f"Since {r.choice(MONTHS)} {y}, {r.choice(THINGS)} from {r.choice(SITES)} have been serviced every "
        f"{r.randint(2, 26)} weeks instead of every {r.randint(27, 60)}."
    ),
    lambda r, y: (
        f"{r.choice(DEPARTMENTS).capitalize()} compared {r.randint(2, 9)} offers for {r.choice(THINGS)}; the "
        f"cheapest was {_tenths(r)} percent below the estimate."
    ),
    lambda r, y: (
        f"A fault in the {r.choice(THINGS)} stopped work in {r.choice(SITES)} for {r.randint(2, 70)} hours in "
        f"{r.choice(MONTHS)}; the insurer paid EUR {r.randint(5, 90)} thousand."
    ),
    lambda r, y: (
        f"If {r.choice(CAUSES)} should continue, {r.choice(DEPARTMENTS)} expects the {r.choice(MEASURES)} to "
        f"reach {_tenths(r)} percent in {y + 1}."
    ),
    lambda r, y: (
        f"Training on {r.choice(THINGS)} was attended by {r.randint(8, 400)} people, {r.randint(2, 90)} of "
        f"them in {r.choice(SITES)}."
    ),
    lambda r, y: (
        f"The {r.choice(MEASURES)} in {r.choice(SITES)} has stayed below {_tenths(r)} percent since "
        f"{r.choice(MONTHS)} {y - r.randint(1, 4)}, despite {r.choice(CAUSES)}."
    ),
)
_COLUMNS = ("Visits", "Hours", "Units", "Days", "Cases", "Tonnes", "Tests")


def paragraph(rng: Random, year: int) -> str:
    """Three to six sentences."""
    return " ".join(rng.choice(_SENTENCES)(rng, year) for _ in range(rng.randint(3, 6)))


def table(rng: Random) -> tuple[str, list[list[str]]]:
    """(caption, rows with the header first) of counts by site."""
    columns = rng.sample(_COLUMNS, 3)
    sites = rng.sample(SITES, rng.randint(4, 9))
    rows = [["Site", *columns], *([site, *(f"{rng.randint(2, 9999):,}" for _ in columns)] for site in sites)]
    return f"{columns[0]}, {columns[1].lower()} and {columns[2].lower()} by site", rows


def titles(rng: Random) -> Iterator[str]:
    """Titles without end, none twice."""
    part = 0
    while True:
        part += 1
        for subject in rng.sample(SUBJECTS, len(SUBJECTS)):
            yield subject if part == 1 else f"{subject}, part {part}"


def _tenths(rng: Random) -> str:
    return f"{rng.randint(11, 989) / 10:.1f}"
