"""How a report's sentences, cells and footnotes print figures, noting which figures each block prints."""

from collections.abc import Sequence
from random import Random

from environments.domains._document_blocks import UNITS, Block, bare, say_date, say_money
from environments.domains._document_company import Book, Company


class Writing:
    """What a report is written with; `_facts` collects the keys of what the block at hand prints."""

    def __init__(self, rng: Random, company: Company, level: int, wording: int) -> None:
        self.rng, self.company, self.level, self.wording = rng, company, level, wording
        self.year = company.year
        self._shown: Book = company.first
        self._facts: list[str] = []
        self._notes = self.rng.sample(("basis", "rates", "restated"), 3)
        self._style = wording if level > 1 else 0
        self._rate = rng.randint(103, 125)

    def _unit(self) -> str:
        return "million" if self.level == 1 else self.rng.choice(UNITS)

    def _value(self, key: str) -> int:
        self._facts.append(key)
        return self._shown[key]

    def _text(self, key: str) -> str:
        return str(self._value(key))

    def _date(self, key: str) -> str:
        return say_date(self._text(key), self._style)

    def _money(self, key: str, unit: str, currency: str = "EUR") -> str:
        return say_money(self._value(key), unit, currency) + (self._pointer() if self._is_stale(key) else "")

    def _cell(self, key: str, unit: str) -> str:
        value = self._value(key)
        return (f"{value:,}" if unit == "" else bare(value, unit)) + ("*" if self._marked(key) else "")

    def _is_stale(self, key: str) -> bool:
        return self._shown[key] != self.company.book[key]

    def _marked(self, key: str) -> bool:
        return self._is_stale(key) and self.level < 3

    def _pointer(self) -> str:
        return f" (restated, see {self._note_label})" if self.level < 3 or self.rng.random() < 0.5 else ""

    @property
    def _note_label(self) -> str:
        return f"Note {self._notes.index('restated') + 1}"

    def _word(self, *variants: str) -> str:
        return variants[self.wording % len(variants)]

    def _block(self, *sentences: str, rows: Sequence[Sequence[str]] = ()) -> Block:
        keys, self._facts = dict.fromkeys(self._facts), []
        stale = tuple(key for key in keys if self._is_stale(key))
        facts = tuple(key for key in keys if key not in stale)
        return Block(text=" ".join(sentences), rows=tuple(map(tuple, rows)), facts=facts, stale=stale)

    def _with_footnote(self, block: Block) -> tuple[Block, ...]:
        if not any(cell.endswith("*") for row in block.rows for cell in row):
            return (block,)
        return block, Block(text=f"* Restated, see {self._note_label}.", footnote=True)

    def _table(self, caption: str, unit: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Block, ...]:
        said = {"": "", "full": " (EUR)"}.get(unit, f" (EUR {unit})")
        return self._with_footnote(self._block(f"{caption}{said}", rows=[head, *rows]))
