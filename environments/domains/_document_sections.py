"""The sections of a report that hold a company's figures, as first reported, and the notes that restate some.

Each block knows the keys of the figures it prints: as `facts` where it prints what holds, as `stale` where it prints
what was first reported. Footnotes point to the note, at level 3 not always.
"""

from collections.abc import Callable, Sequence

from environments.domains import _document_filler as filler
from environments.domains._document_blocks import Block, Section, label_of, num_chars, say_date, say_money
from environments.domains._document_company import OPTIONAL, POSTS, QUARTERS, SINGLE, Company
from environments.domains._document_writing import Writing

ORDINALS = ("first", "second", "third", "fourth")


class Writer(Writing):
    """Writes the sections of one report."""

    def core(self, needed: Sequence[str], target_chars: int) -> tuple[list[Section], list[Section]]:
        """(body, notes): the needed sections, and others up to the length, or all of them from level 2 on."""
        makers = self._makers()
        body = [section for name in needed for section in makers.pop(name)()]
        notes = [self._note(name) for name in self._notes]
        for make in makers.values():
            made = make()
            if self.level > 1 or sum(map(num_chars, [*body, *notes, *made])) <= target_chars:
                body += made
        return body, notes

    def _makers(self) -> dict[str, Callable[[], list[Section]]]:
        makers: dict[str, Callable[[], list[Section]]] = {
            "about": self._about,
            "segments": self._segments,
            "profits": self._profits,
            "quarters": self._quarters,
            "regions": lambda: [self._by_region("region_revenue", "Revenue by region")],
            "staff": lambda: [self._by_region("staff", "Employees by region")],
            "products": self._products,
            "deals": self._deals,
            "management": self._management,
            "calendar": self._calendar,
            "other": self._other,
            **{name: lambda name=name: [self._single(name)] for name in SINGLE},  # type: ignore[misc]
        }
        more = {"letter": self._letter, "figures": self._key_figures, "peer": self._peer, "outlook": self._outlook}
        return makers | (more if self.level > 1 else {})

    # -- sections

    def _about(self) -> list[Section]:
        name, number = self._text("text/company"), self._text("id/report")
        ended, published = self._date("date/year_end"), self._date("date/published")
        said = self._word(
            f"This is the annual report of {name}, filed under number {number}. The financial year {self.year} ended "
            f"on {ended}. The report was published on {published}.",
            f"{name} reports on its financial year {self.year}, which ended on {ended}. Report number: {number}. Date "
            f"of publication: {published}.",
            f"Report {number} of {name} was published on {published} and covers the financial year {self.year}, "
            f"ended {ended}.",
        )
        return [
            Section(
                title=self._word("About this report", "The report", "Preliminary remarks"), blocks=(self._block(said),)
            )
        ]

    def _segments(self) -> list[Section]:
        if self.level == 3:
            return [*map(self._segment, self.company.segments), self._previous_year()]
        unit = self._unit()
        rows = [
            [s, *(self._cell(f"revenue/{s}/{year}", unit) for year in (self.year, self.year - 1))]
            for s in self.company.segments
        ]
        blocks = self._table("Revenue by segment", unit, ["Segment", str(self.year), str(self.year - 1)], rows)
        return [Section(title=self._word("Revenue by segment", "Segments", "Businesses"), blocks=blocks)]

    def _segment(self, segment: str) -> Section:
        unit = self._unit()
        value = self._shown[f"revenue/{segment}/{self.year}"]
        dollars = say_money(round(value * self._rate / 10**7) * 10**5, "million", "USD")
        revenue = self._money(f"revenue/{segment}/{self.year}", unit)
        said = self._word(
            f"In {self.year} the segment {segment} had revenue of {revenue}, about {dollars} at the average rate.",
            f"Revenue of {segment} reached {revenue} in {self.year}. In dollars this is roughly {dollars}.",
            f"{segment} contributed {revenue} to revenue in {self.year} (about {dollars}).",
        )
        blocks = (Block(text=filler.paragraph(self.rng, self.year)), self._block(said))
        return Section(title=f"Segment {segment}", blocks=blocks)

    def _previous_year(self) -> Section:
        unit, year = self._unit(), self.year - 1
        rows = [[s, self._cell(f"revenue/{s}/{year}", unit)] for s in self.company.segments]
        blocks = self._table(f"Revenue by segment in {year}", unit, ["Segment", str(year)], rows)
        return Section(
            title=self._word("Previous year", "Comparative figures", f"Looking back at {year}"), blocks=blocks
        )

    def _profits(self) -> list[Section]:
        unit = self._unit()
        rows = [
            [s, *(self._cell(f"profit/{s}/{year}", unit) for year in (self.year - 1, self.year))]
            for s in self.company.segments
        ]
        blocks = self._table("Operating profit by segment", unit, ["Segment", str(self.year - 1), str(self.year)], rows)
        return [Section(title=self._word("Operating profit", "Earnings", "Results of operations"), blocks=blocks)]

    def _quarters(self) -> list[Section]:
        if self.level == 3:
            return [self._quarter(i, quarter) for i, quarter in enumerate(QUARTERS)]
        unit = self._unit()
        blocks = [block for year in (self.year, self.year - 1) for block in self._quarter_table(year, unit)]
        return [
            Section(title=self._word("Quarterly development", "Quarters", "Course of the year"), blocks=tuple(blocks))
        ]

    def _quarter_table(self, year: int, unit: str) -> tuple[Block, ...]:
        rows = [[s, *(self._cell(f"revenue/{s}/{year}/{q}", unit) for q in QUARTERS)] for s in self.company.segments]
        return self._table(f"Revenue by quarter, {year}", unit, ["Segment", *QUARTERS], rows)

    def _quarter(self, number: int, quarter: str) -> Section:
        unit, blocks = self._unit(), [Block(text=filler.paragraph(self.rng, self.year))]
        for segment in self.company.segments:
            now = self._money(f"revenue/{segment}/{self.year}/{quarter}", unit)
            before = self._money(f"revenue/{segment}/{self.year - 1}/{quarter}", unit)
            blocks.append(
                self._block(
                    self._word(
                        f"{segment} had revenue of {now} in the quarter, after {before} a year earlier.",
                        f"In the same quarter of {self.year - 1}, {segment} had earned {before}; now it was {now}.",
                        f"Revenue of {segment}: {now} (quarter of the previous year: {before}).",
                    )
                )
            )
        return Section(title=f"The {ORDINALS[number]} quarter of {self.year} ({quarter})", blocks=tuple(blocks))

    def _by_region(self, what: str, title: str) -> Section:
        unit = "" if what == "staff" else self._unit()
        rows = [
            [region, *(self._cell(f"{what}/{region}/{year}", unit) for year in (self.year - 1, self.year))]
            for region in self.company.regions
        ]
        blocks = self._table(title, unit, ["Region", str(self.year - 1), str(self.year)], rows)
        return Section(title=title, blocks=blocks)

    def _products(self) -> list[Section]:
        blocks = []
        for product in self.rng.sample(self.company.products, len(self.company.products)):
            segment, day = self._text(f"segment_of/{product}"), self._date(f"launched/{product}")
            said = self._word(
                f"{segment} launched {product} on {day}.",
                f"{product}, a product of {segment}, has been on sale since {day}.",
                f"On {day} the first {product} was delivered by {segment}.",
            )
            blocks.append(self._block(said))
        return [Section(title=self._word("New products", "Product launches", "Innovations"), blocks=tuple(blocks))]

    def _deals(self) -> list[Section]:
        blocks = []
        for target in self.rng.sample(self.company.targets, len(self.company.targets)):
            day = self._date(f"closed/{target}")
            price = self._money(f"price/{target}", self._unit(), "USD")
            said = self._word(
                f"The purchase of {target} for {price} was closed on {day}.",
                f"On {day} the company completed its acquisition of {target}; the price was {price}.",
                f"{target} was acquired at a price of {price} (closing: {day}).",
            )
            blocks.append(self._block(said))
        return [
            Section(
                title=self._word("Acquisitions", "Companies acquired", "Business combinations"), blocks=tuple(blocks)
            )
        ]

    def _management(self) -> list[Section]:
        people = {post: self._text(f"person/{post}") for post in POSTS}
        said = [f"{people[post]} serves as {label_of(post)}." for post in POSTS]
        if self.wording:
            said = [f"The {label_of(post)} is {people[post]}." for post in POSTS]
        return [
            Section(title=self._word("Management", "Governance", "Bodies of the company"), blocks=(self._block(*said),))
        ]

    def _calendar(self) -> list[Section]:
        day = self._date("date/annual_meeting")
        said = self._word(
            f"The annual general meeting takes place on {day}.",
            f"Shareholders meet on {day} for the annual general meeting.",
            f"Annual general meeting: {day}.",
        )
        return [Section(title=self._word("Financial calendar", "Dates", "Calendar"), blocks=(self._block(said),))]

    def _single(self, name: str) -> Section:
        unit, label = self._unit(), label_of(name)
        now, before = self._money(f"{name}/{self.year}", unit), self._money(f"{name}/{self.year - 1}", unit)
        said = self._word(
            f"In {self.year}, {label} came to {now}. The year before it had been {before}.",
            f"The {label} amounted to {before} in {self.year - 1} and to {now} in {self.year}.",
            f"{label.capitalize()} was {now} in {self.year} ({self.year - 1}: {before}).",
        )
        return Section(title=label.capitalize(), blocks=(self._block(said),))

    def _other(self) -> list[Section]:
        told = [self._block(self._optional(name)) for name in self.company.stated]
        if self.level < 3:
            return [
                Section(title=self._word("Other information", "Further facts", "Miscellaneous"), blocks=tuple(told))
            ]
        return [
            Section(title="Other disclosures", blocks=tuple(told[:3])),
            Section(title="Further disclosures", blocks=tuple(told[3:])),
        ]

    def _optional(self, name: str) -> str:
        key, kind, label = f"optional/{name}", OPTIONAL[name], label_of(name)
        if kind == "money":
            return f"The {label} stood at {self._money(key, self._unit())}."
        if kind == "number":
            return f"The number of {label} was {self._value(key):,}."
        return f"The {label} is {self._date(key) if kind == 'date' else self._text(key)}."

    # -- what repeats figures of other sections: further places where they stand

    def _letter(self) -> list[Section]:
        name, number = self._text("text/company"), self._text("id/report")
        product = self.company.products[0]
        said = [
            f"Dear shareholders of {name}, the pages of report {number} tell of a year with much to do.",
            f"What pleased us most was the launch of {product} on {self._date(f'launched/{product}')}.",
            f"We hope to see you on {self._date('date/annual_meeting')} at the annual general meeting.",
            *(f"{self._text(f'person/{post}')}, {label_of(post)}." for post in POSTS[:2]),
        ]
        title = self._word("Letter to the shareholders", "To our shareholders", "Foreword")
        return [Section(title=title, blocks=(self._block(*said),))]

    def _key_figures(self) -> list[Section]:
        unit, years = self._unit(), (self.year, self.year - 1)
        named = {label_of(name).capitalize(): name for name in ("total_revenue", *SINGLE)}
        named |= {f"Operating profit, {segment}": f"profit/{segment}" for segment in self.company.segments}
        rows = [[label, *(self._cell(f"{what}/{year}", unit) for year in years)] for label, what in named.items()]
        blocks = self._table("Key figures", unit, ["", *map(str, years)], rows)
        staff = f"At the year end the company had {self._value(f'total_staff/{self.year}'):,} employees in all regions."
        return [
            Section(title=self._word("Key figures", "At a glance", "Overview"), blocks=(*blocks, self._block(staff)))
        ]

    # -- what is not about the company's year, and so no place of any fact

    def _peer(self) -> list[Section]:
        peer = self.company.peer
        if peer is None:
            return []
        unit = self._unit()
        said = [f"For comparison, published figures of {peer.name} for {self.year} follow."]
        said += [
            f"{s} of {peer.name}: revenue {say_money(peer.book[f'revenue/{s}/{self.year}'], unit)}."
            for s in peer.segments
        ]
        said += [f"Its {label_of(n)} was {say_money(peer.book[f'{n}/{self.year}'], unit)}." for n in SINGLE]
        said += [f"It employed {peer.book[f'staff/{r}/{self.year}']:,} people in {r}." for r in peer.regions]
        said += [f"Its chief executive is {peer.book['person/chief_executive']}."]
        said += [_peer_optional(peer, name, unit) for name in self.company.absent]
        return [Section(title=f"Comparison with {peer.name}", blocks=(Block(text=" ".join(said)),))]

    def _outlook(self) -> list[Section]:
        year, unit = self.year + 1, self._unit()
        said = [
            f"For {year} the plan foresees revenue of {self._plan(f'revenue/{s}', unit)} in {s}."
            for s in self.company.segments
        ]
        said += [f"Planned {label_of(name)} in {year}: {self._plan(name, unit)}." for name in SINGLE]
        return [
            Section(title=self._word("Outlook", "Plans", "Expected development"), blocks=(Block(text=" ".join(said)),))
        ]

    def _plan(self, what: str, unit: str) -> str:
        value = self._shown[f"{what}/{self.year}"] * self.rng.uniform(1.06, 1.3)
        return say_money(round(value / 10**5) * 10**5, unit)

    def _note(self, name: str) -> Section:
        if name == "basis":
            said = "Figures are those of the company unless another company is named. Amounts are in euros where no "
            return Section(title="Basis of preparation", blocks=(Block(text=f"{said}other currency is given."),))
        if name == "rates":
            said = f"In {self.year} one euro was worth {self._rate / 100:.2f} US dollars on average."
            return Section(title="Exchange rates", blocks=(Block(text=said),))
        return self._restatement()

    def _restatement(self) -> Section:
        self._shown = self.company.book
        unit = self._unit()
        blocks = [Block(text=f"{self.company.restatement.reason}. The following figures are restated.")]
        for key in self.company.restatement.keys:
            before = say_money(self.company.first[key], unit)
            said = f"{_what(key)}: {self._money(key, unit)} (first reported: {before})."
            blocks.append(self._block(said))
        self._shown = self.company.first
        return Section(title=self._word("Restatement", "Restated figures", "Corrections"), blocks=tuple(blocks))


def _what(key: str) -> str:
    """A restated key in words: `Revenue of Water Systems in the second quarter of 2023`."""
    what, *rest = key.split("/")
    if what == "revenue" and len(rest) == 3:
        return f"Revenue of {rest[0]} in the {ORDINALS[QUARTERS.index(rest[2])]} quarter of {rest[1]}"
    if what in ("revenue", "region_revenue"):
        return f"Revenue {'of' if what == 'revenue' else 'in'} {rest[0]} in {rest[1]}"
    return f"{label_of(what).capitalize()} in {rest[0]}"


def _peer_optional(peer: Company, name: str, unit: str) -> str:
    value, kind = peer.book[f"optional/{name}"], OPTIONAL[name]
    said = {"money": lambda: say_money(value, unit), "date": lambda: say_date(value), "number": lambda: f"{value:,}"}
    return f"{label_of(name).capitalize()} of {peer.name}: {said.get(kind, lambda: str(value))()}."
