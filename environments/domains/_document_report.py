"""A company's report: sections of paragraphs, tables and footnotes, and for every figure where it truly stands.

    level 1   what is asked in a few sections, one unit
    level 2   all sections, a peer in the same businesses, plans for next year, a unit of its own in each section
    level 3   the same figures spread: a section for each segment and each quarter, last year's in one of their own

Sections first print what was first reported; where that was restated since, only the note counts as a place of the
figure. Other sections fill the report up to its length.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from environments.domains import _document_filler as filler
from environments.domains._document_blocks import Block, Section, num_chars
from environments.domains._document_company import Company
from environments.domains._document_sections import Writer

CHARS_PER_TOKEN = 4


def write_report(
    rng: Random, company: Company, *, level: int, needed: Sequence[str], wording: int, order: int, target_chars: int
) -> list[Section]:
    """The sections in order with their labels, about `target_chars` long where what has to be in it is shorter."""
    writer = Writer(rng, company, level, wording)
    body, notes = writer.core(needed, target_chars)
    Random(order).shuffle(body)
    length = sum(map(num_chars, [*body, *notes]))
    fill = _fill(rng, company.year, target_chars - length)
    gaps = sorted(rng.randint(0, len(fill)) for _ in body)
    mixed: list[Section] = []
    for i in range(len(fill) + 1):
        mixed += [section for section, gap in zip(body, gaps, strict=True) if gap == i]
        mixed += fill[i : i + 1]
    labelled = [replace(section, label=str(i)) for i, section in enumerate(mixed, 1)]
    return [*labelled, *(replace(note, label=f"Note {i}") for i, note in enumerate(notes, 1))]


def _fill(rng: Random, year: int, missing_chars: int) -> list[Section]:
    sections, titles = [], filler.titles(rng)
    while missing_chars > 150:
        section = _filler_section(rng, year, next(titles), min(missing_chars, rng.randint(1200, 4800)))
        sections.append(section)
        missing_chars -= num_chars(section)
    return sections


def _filler_section(rng: Random, year: int, title: str, most_chars: int) -> Section:
    blocks: list[Block] = []
    left = most_chars
    while left > 0:
        if left > 700 and rng.random() < 0.15:
            caption, rows = filler.table(rng)
            blocks.append(Block(text=caption, rows=tuple(map(tuple, rows))))
            left -= 250
        else:
            blocks.append(Block(text=filler.paragraph(rng, year)))
            left -= len(blocks[-1].text)
    return Section(title=title, blocks=tuple(blocks))
