"""A report as text, Markdown, HTML or PDF, and where each figure stands in it.

    sections --render--> Document(sections, pages, facts, stale)

A PDF is really made (fpdf2) and read back (pypdf): its text is what the reader found on the pages, with page marks.
It is laid out here, a block never crossing a page; equal sections give equal bytes (fixed date, no file id).
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Literal

from assay.errors import EnvironmentAuthorError
from assay.records import record
from environments.domains._document_blocks import Block, Section

Format = Literal["text", "markdown", "html", "pdf"]
FORMATS: tuple[Format, ...] = ("text", "markdown", "html", "pdf")
_COLUMNS = 94
_LINES = 60
_LINE_MM = 4.4
_MARGIN_MM = 14
_CREATED = datetime(2025, 1, 1, tzinfo=UTC)
_WRAP = re.compile(rf"\S.{{0,{_COLUMNS - 1}}}(?=\s|\Z)|\S{{{_COLUMNS}}}")
Place = dict[str, Any]
Lines = list[str]


@record
class Part:
    """A section as it is read: `text` with its heading, page marks inside where there are pages."""

    label: str
    title: str
    text: str


@record
class Document:
    """`facts` maps a key to the places where it stands as it holds, `stale` to those with what was first reported."""

    parts: tuple[Part, ...]
    num_pages: int
    facts: Mapping[str, list[Place]]
    stale: Mapping[str, list[Place]]

    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts)


def render(sections: Sequence[Section], form: Format) -> Document:
    """The document in one of the formats. Raises EnvironmentAuthorError when a PDF does not read back as written."""
    if form == "pdf":
        return _paged(sections)
    facts: dict[str, list[Place]] = {}
    stale: dict[str, list[Place]] = {}
    for section in sections:
        for block in section.blocks:
            _note(block, _place(section, None), facts, stale)
    parts = tuple(Part(label=s.label, title=s.title, text=_written(s, form)) for s in sections)
    return Document(parts=parts, num_pages=0, facts=facts, stale=stale)


def _place(section: Section, page: int | None) -> Place:
    return {"section": section.label, "title": section.title} | ({} if page is None else {"page": page})


def _note(block: Block, place: Place, facts: dict[str, list[Place]], stale: dict[str, list[Place]]) -> None:
    for found, keys in ((facts, block.facts), (stale, block.stale)):
        for key in keys:
            if place not in found.setdefault(key, []):
                found[key].append(place)


def _written(section: Section, form: Format) -> str:
    name = f"{section.label} {section.title}"
    if form == "html":
        return "\n".join([f"<h2>{escape(name)}</h2>", *map(_html, section.blocks)])
    if form == "markdown":
        return "\n\n".join([f"## {name}", *map(_markdown, section.blocks)])
    return "\n\n".join(["\n".join(block) for block in ([name, "=" * len(name)], *map(_lines, section.blocks))])


def _html(block: Block) -> str:
    if not block.rows:
        return f"{'<p class=footnote>' if block.footnote else '<p>'}{escape(block.text)}</p>"
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.rows[0])
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in block.rows[1:]]
    body = "\n".join(f"<tr>{row}</tr>" for row in [head, *rows])
    return f"<table>\n<caption>{escape(block.text)}</caption>\n{body}\n</table>"


def _markdown(block: Block) -> str:
    if not block.rows:
        return block.text
    head, *rows = (f"| {' | '.join(row)} |" for row in block.rows)
    rule = f"|{'---|' * len(block.rows[0])}"
    return "\n".join([f"**{block.text}**", "", head, rule, *rows])


def _lines(block: Block) -> Lines:
    """Lines of at most `_COLUMNS` characters."""
    caption = _WRAP.findall(block.text)
    if not block.rows:
        return caption
    widths = [max(len(row[i]) for row in block.rows) for i in range(len(block.rows[0]))]
    return caption + [_row(row, widths) for row in block.rows]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip()


def _paged(sections: Sequence[Section]) -> Document:
    layout = _Layout()
    for section in sections:
        layout.add(section)
    pages = _read(pdf_bytes(layout.pages))
    if [len(page) for page in pages] != [sum(map(bool, page)) for page in layout.pages]:
        raise EnvironmentAuthorError(
            "documents: a PDF was not read back line by line; check the versions of fpdf2 and pypdf"
        )
    parts = [
        Part(label=section.label, title=section.title, text="\n".join(_marked(pages, spans)))
        for section, spans in zip(sections, layout.spans, strict=True)
    ]
    return Document(parts=tuple(parts), num_pages=len(pages), facts=layout.facts, stale=layout.stale)


def _marked(pages: Sequence[Lines], spans: Sequence[tuple[int, int, int]]) -> Iterator[str]:
    for page, first, last in spans:
        yield f"[page {page}]"
        yield from pages[page - 1][first:last]


class _Layout:
    """Blocks set on pages one after another; `spans` are, for each section, (page, first, last) printed lines."""

    def __init__(self) -> None:
        self.pages: list[Lines] = [[]]
        self.spans: list[list[tuple[int, int, int]]] = []
        self.facts: dict[str, list[Place]] = {}
        self.stale: dict[str, list[Place]] = {}
        self._printed = 0

    def add(self, section: Section) -> None:
        name = f"{section.label} {section.title}"
        heading = [name, "-" * len(name)]
        self.spans.append([])
        for block in section.blocks:
            # The heading stays with the first block.
            self._set([*heading, *_lines(block)])
            heading = []
            _note(block, _place(section, len(self.pages)), self.facts, self.stale)

    def _set(self, lines: Lines) -> None:
        if len(self.pages[-1]) + len(lines) > _LINES:
            self.pages.append([])
            self._printed = 0
        self.pages[-1] += [*lines, ""]
        page, first = len(self.pages), self._printed
        self._printed += len(lines)
        spans = self.spans[-1]
        if spans and spans[-1][0] == page:
            first = spans.pop()[1]
        spans.append((page, first, self._printed))


def pdf_bytes(pages: Sequence[Lines]) -> bytes:
    """The same bytes for the same lines, on every machine."""
    from fpdf import FPDF

    class Fixed(FPDF):
        def file_id(self) -> None:
            """None writes no id into the file."""

    pdf = Fixed()
    pdf.set_creation_date(_CREATED)
    pdf.set_auto_page_break(False)
    for lines in pages:
        pdf.add_page()
        pdf.set_font("Courier", size=9)
        for i, line in enumerate(lines):
            if line:
                pdf.text(_MARGIN_MM, _MARGIN_MM + i * _LINE_MM, line)
    return bytes(pdf.output())


def _read(data: bytes) -> list[Lines]:
    """The printed lines of every page."""
    from pypdf import PdfReader

    return [
        [line for line in page.extract_text().splitlines() if line.strip()]
        for page in PdfReader(io.BytesIO(data)).pages
    ]
