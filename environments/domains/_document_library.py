"""A document behind tools: searched and read piece by piece over several turns, until an answer is submitted.

search        sections (and pages) where words occur, the most telling first, with what stands around them
read_section  one section by its number or title          read_page  one page, where the document has pages
submit        the answer; ends the episode
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.ids import canonical_json
from assay.records import TaskSpec, Tool
from environments.base import Outcome, Reply
from environments.domains._common import plain
from environments.domains._document_formats import Document
from environments.tools import BadCall, Call, read_calls

MAX_SHOWN_CHARS = 7_500
_NUM_HITS = 8
_AROUND = 110
_MAX_WORDS = 12
_PAGE_MARK = re.compile(r"^\[page (\d+)\]$", re.MULTILINE)
_TEXT = {"type": "string", "maxLength": 300}


def _tool(tool: str, description: str, /, **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return Tool(name=tool, description=description, parameters=schema)


SEARCH = _tool("search", "Find the sections of the document where these words occur.", query=_TEXT)
SECTION = _tool("read_section", "Read a section by its number or title, such as 7 or Note 2.", section=_TEXT)
PAGE = _tool("read_page", "Read a page of the document.", page={"type": "integer", "minimum": 1})
SUBMIT = _tool("submit", "Give the answer and end the work.", answer={"type": ["object", "string"]})


def tools_for(*, paged: bool) -> tuple[Tool, ...]:
    """The tools of a document."""
    return (SEARCH, SECTION, PAGE, SUBMIT) if paged else (SEARCH, SECTION, SUBMIT)


class Library:
    """What the tools answer of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lower = [part.text.casefold() for part in document.parts]

    def search(self, query: str) -> str:
        """The best sections, ranked by how often the rarer words occur, phrases counting most."""
        words = list(dict.fromkeys(re.findall(r"[\w&+-]+", plain(query))))[:_MAX_WORDS]
        if not words:
            return "The query has no words."
        scores = self._scores([plain(query), *words] if len(words) > 1 else words)
        best = sorted(scores, key=lambda i: (-scores[i], i))[:_NUM_HITS]
        return "\n".join(self._hit(i, words) for i in best) or "Nothing found."

    def _scores(self, terms: Sequence[str]) -> dict[int, float]:
        scores: dict[int, float] = defaultdict(float)
        for term in terms:
            counts = {i: count for i, text in enumerate(self._lower) if (count := text.count(term))}
            weight = math.log(1 + len(self._lower) / len(counts)) if counts else 0.0
            for i, count in counts.items():
                scores[i] += weight * (1 + math.log(count))
        return scores

    def _hit(self, i: int, words: Sequence[str]) -> str:
        part, lower = self._document.parts[i], self._lower[i]
        # The rarest word shows the most; words of one section are compared by how seldom they stand in it.
        found = [word for word in words if word in lower]
        at = lower.find(min(found, key=lower.count)) if found else 0
        shown = " ".join(part.text[max(0, at - _AROUND) : at + _AROUND].split())
        pages = _PAGE_MARK.findall(part.text[: at + 1])
        where = f", page {pages[-1]}" if pages else ""
        return f"[{part.label}] {part.title}{where}: ... {shown} ..."

    def section(self, name: str) -> str:
        """The text of a section, or which sections have a similar title."""
        wanted = plain(name).removeprefix("section ").strip(" []")
        for part in self._document.parts:
            label, title = plain(part.label), plain(part.title)
            if wanted in (label, title, f"{label} {title}", f"{label}: {title}"):
                return _clipped(part.text)
        near = [f"[{p.label}] {p.title}" for p in self._document.parts if wanted and wanted in plain(p.title)][
            :_NUM_HITS
        ]
        return f"There is no such section. {'Similar: ' + '; '.join(near) if near else 'Search for words in it.'}"

    def page(self, number: int) -> str:
        """The text of a page."""
        there = [part.text for part in self._document.parts if f"[page {number}]" in part.text]
        texts = [said for text in there for page, said in _by_page(text) if page == number]
        if not texts:
            return f"There is no page {number}; the document has {self._document.num_pages} pages."
        return _clipped("\n".join([f"[page {number}]", *texts]))


def _by_page(text: str) -> list[tuple[int, str]]:
    pieces = _PAGE_MARK.split(text)
    return [(int(page), said.strip("\n")) for page, said in zip(pieces[1::2], pieces[2::2], strict=True)]


def _clipped(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}\n[cut; search for words to find what follows]"


class Reading:
    """An episode with the document behind tools; nothing in it changes what is read, so it has no state to hash."""

    def __init__(self, task: TaskSpec, library: Library) -> None:
        self._task, self._library = task, library
        self._submission = ""
        self._turns = self._invalid = self._num_calls = 0

    async def reply(self, completion: str) -> Reply:
        self._turns += 1
        last = self._turns >= self._task.max_turns
        try:
            calls = read_calls(completion, self._task.tools)
        except BadCall as fault:
            self._invalid += 1
            return Reply(action="", observation=str(fault)[:MAX_SHOWN_CHARS], done=last, valid_action=False)
        said: list[str] = []
        for call in calls:
            if call.name == SUBMIT.name:
                self._submission = _as_text(call.arguments["answer"])
                return Reply(action=_told(calls), observation="", done=True)
            said.append(self._do(call, MAX_SHOWN_CHARS - sum(map(len, said))))
        return Reply(action=_told(calls), observation="\n".join(said), done=last)

    def _do(self, call: Call, room: int) -> str:
        self._num_calls += 1
        if room < 500:
            return f"{call.name}: too much in one message; call it again."
        done: Mapping[str, Callable[..., str]] = {
            SEARCH.name: self._library.search,
            SECTION.name: self._library.section,
            PAGE.name: self._library.page,
        }
        return done[call.name](*call.arguments.values())

    async def outcome(self) -> Outcome:
        turns = max(1, self._turns)
        metrics = {
            "num_turns": float(self._turns),
            "num_calls": float(self._num_calls),
            "num_invalid_actions": float(self._invalid),
            "valid_actions": 1.0 - self._invalid / turns,
        }
        return Outcome(submission=self._submission, metrics=metrics)

    async def state_hash(self) -> str:
        return ""

    async def close(self) -> None:
        pass


def _as_text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


def _told(calls: Sequence[Call]) -> str:
    return canonical_json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
