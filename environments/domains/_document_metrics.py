"""What an extraction earns, field by field, and whether its evidence is true. Exact definitions:

scalar     right 1 when equal to gold; omitted 1 when null or missing; else wrong 1
absent     gold is null: null is neither right nor wrong; any value is wrong 1 (a hallucination)
set        items are paired so that most is right, whatever their order
list       items are aligned in order by edit distance (a pair costs what it lacks, a lone item costs 1)
           both: a pair earns its share of right leaves; a lone gold item is omitted, a lone found one wrong;
           all divided by the number of gold items
fields     (right - 0.5 * wrong) / fields that are present, at least 0: a wrong value costs more than none
evidence   mean over present fields of right * (figures with a true place cited / figures) * (true / cited places)
restraint  1 - wrong / all fields, at least 0
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from assay.records import record
from environments.domains._common import plain
from environments.domains._document_values import nothing, same

WRONG_COSTS = 0.5
_MOST_ITEMS = 64
_MOST_CITED = 32
Spec = Mapping[str, Any]


@record
class Tally:
    """What one field came to; `due` is 1 for a field that is in the document and 0 for one that is absent."""

    right: float = 0.0
    wrong: float = 0.0
    omitted: float = 0.0
    due: int = 1
    precision: float = 1.0
    recall: float = 1.0


@record
class Graded:
    """All fields by their path (`people.chief_executive`), and how many were given that nobody asked for."""

    fields: Mapping[str, Tally]
    num_unknown: int = 0
    evidence: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_wrong(self) -> float:
        return sum(tally.wrong for tally in self.fields.values()) + self.num_unknown

    @property
    def field_score(self) -> float:
        due = sum(tally.due for tally in self.fields.values())
        right = sum(tally.right for tally in self.fields.values())
        if not due:
            return float(self.num_wrong == 0)
        return min(1.0, max(0.0, (right - WRONG_COSTS * self.num_wrong) / due))

    @property
    def restraint(self) -> float:
        return max(0.0, 1.0 - self.num_wrong / max(1, len(self.fields)))

    @property
    def omission_rate(self) -> float:
        due = sum(tally.due for tally in self.fields.values())
        return sum(tally.omitted for tally in self.fields.values()) / max(1, due)

    @property
    def evidence_score(self) -> float:
        return sum(self.evidence.values()) / len(self.evidence) if self.evidence else 1.0

    @property
    def perfect(self) -> bool:
        whole = all(tally.right >= tally.due and not tally.wrong for tally in self.fields.values())
        return whole and not self.num_unknown and all(share >= 1.0 for share in self.evidence.values())


def leaves(spec: Spec, path: str = "") -> dict[str, Spec]:
    """The fields of an object specification by path; collections are one field each."""
    found: dict[str, Spec] = {}
    for name, inner in spec["fields"].items():
        where = f"{path}{name}"
        found |= leaves(inner, f"{where}.") if inner["type"] == "object" else {where: inner}
    return found


def grade(spec: Spec, answer: Mapping[str, Any], gold: Mapping[str, Any], places: Mapping[str, Any]) -> Graded:
    """Grade `{"values": ..., "evidence": {path: places}}`. Never raises for what an answer holds."""
    tallies, num_unknown = compare(spec, answer.get("values"), gold)
    cited = answer.get("evidence")
    cited = cited if isinstance(cited, Mapping) else {}
    evidence = {
        path: tally.right * evidence_share(cited.get(path), places[path])
        for path, tally in tallies.items()
        if tally.due
    }
    return Graded(fields=tallies, num_unknown=num_unknown, evidence=evidence)


def fault(spec: Spec, gold: Any, places: Any) -> str:
    """What makes gold or places unfit to grade by, empty when nothing does."""
    for path, inner in leaves(spec).items():
        value = gold
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return f"gold lacks {path!r}"
            value = value[name]
        if inner["type"] in ("set", "list") and value is not None and not (isinstance(value, list) and value):
            return f"gold of {path!r} is {value!r} but must be a list with items, or null"
        if value is not None and not (path in places and places[path].get("groups")):
            return f"places lack {path!r}"
    return ""


def compare(spec: Spec, found: Any, gold: Mapping[str, Any]) -> tuple[dict[str, Tally], int]:
    """Tallies of every field by path, and the number of keys that the specification does not have."""
    given = found if isinstance(found, Mapping) else {}
    num_unknown = len(set(given) - set(spec["fields"])) + int(given is not found and not nothing(found))
    tallies: dict[str, Tally] = {}
    for name, inner in spec["fields"].items():
        if inner["type"] == "object":
            below, more = compare(inner, given.get(name), gold[name])
            tallies |= {f"{name}.{path}": tally for path, tally in below.items()}
            num_unknown += more
        else:
            tallies[name] = tally_of(inner, given.get(name), gold[name])
    return tallies, num_unknown


def tally_of(spec: Spec, found: Any, gold: Any) -> Tally:
    """The tally of one field: a scalar, or a collection (`set`, `list`) of scalars or flat records."""
    if nothing(found):
        return Tally(due=0) if gold is None else Tally(omitted=1.0, recall=0.0)
    if gold is None:
        return Tally(wrong=1.0, due=0, precision=0.0)
    if spec["type"] in ("set", "list"):
        return _collection(spec, found, gold)
    if same(spec, found, gold):
        return Tally(right=1.0)
    return Tally(wrong=1.0, precision=0.0, recall=0.0)


def _collection(spec: Spec, found: Any, gold: Sequence[Any]) -> Tally:
    if not isinstance(found, list):
        return Tally(wrong=1.0, precision=0.0, recall=0.0)
    looked = found[:_MOST_ITEMS]
    tallies = [[_item(spec["items"], item, want) for item in looked] for want in gold]
    right = [[tally.right for tally in row] for row in tallies]
    pairs = aligned(right) if spec["type"] == "list" else paired(right)
    met = [tallies[i][j] for i, j in pairs]
    num_right = sum(tally.right for tally in met)
    wrong = sum(tally.wrong for tally in met) + len(found) - len(met)
    omitted = sum(tally.omitted for tally in met) + len(gold) - len(met)
    return Tally(
        right=num_right / len(gold),
        wrong=min(1.0, wrong / len(gold)),
        omitted=omitted / len(gold),
        precision=num_right / len(found),
        recall=num_right / len(gold),
    )


def _item(spec: Spec, found: Any, gold: Any) -> Tally:
    """One item of a collection; of a record the mean over its leaves, unknown keys making it wrong."""
    if spec["type"] != "object":
        return tally_of(spec, found, gold)
    tallies, num_unknown = compare(spec, found, gold)
    num = len(tallies)
    right = sum(tally.right for tally in tallies.values()) / num
    wrong = min(1.0, (sum(tally.wrong for tally in tallies.values()) + num_unknown) / num)
    return Tally(right=right, wrong=wrong, omitted=sum(tally.omitted for tally in tallies.values()) / num)


def aligned(similarity: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs (row, column), both rising, of the alignment with the least edit distance.

    A pair costs 1 - similarity, a row or column left alone costs 1. [rows x columns], values in 0..1.
    """
    rows, columns = len(similarity), len(similarity[0]) if similarity else 0
    cost = [[float(i + j) for j in range(columns + 1)] for i in range(rows + 1)]
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            pair = cost[i - 1][j - 1] + 1 - similarity[i - 1][j - 1]
            cost[i][j] = min(pair, cost[i - 1][j] + 1, cost[i][j - 1] + 1)
    return _walk_back(cost, similarity)


def _walk_back(cost: Sequence[Sequence[float]], similarity: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    pairs = []
    i, j = len(cost) - 1, len(cost[0]) - 1
    while i and j:
        if cost[i][j] == cost[i - 1][j - 1] + 1 - similarity[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def paired(similarity: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs (row, column) with the greatest total similarity, each row and column used once."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]


def evidence_share(cited: Any, places: Mapping[str, Any]) -> float:
    """Share in 0..1 of one field's evidence: `groups` holds for each ingredient the places where it truly stands.

    Places in `related` (where the figure stood before it was restated) may be cited too and count neither way.
    """
    given = cited if isinstance(cited, list) else [cited]
    given = [place for place in given if not nothing(place)]
    groups = places["groups"]
    if not given or not groups:
        return 0.0
    looked = [place for place in given[:_MOST_CITED] if not _among(place, places.get("related", ()))]
    looked += [place for place in given[:_MOST_CITED] if place not in looked and _stands_in_any(place, groups)]
    covered = sum(any(_among(place, [true]) for place in looked for true in group) for group in groups)
    num_true = sum(_stands_in_any(place, groups) for place in looked)
    num_cited = len(looked) + max(0, len(given) - _MOST_CITED)
    return covered / len(groups) * num_true / num_cited if num_cited else 0.0


def _stands_in_any(place: Any, groups: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    return any(_among(place, group) for group in groups)


def _among(cited: Any, places: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a cited place is one of these: by number, title or both; with the page where the document has pages."""
    given = cited if isinstance(cited, Mapping) else {"section": cited}
    section = given.get("section")
    if isinstance(section, bool) or not isinstance(section, (str, int)) or len(str(section)[:201]) > 200:
        return False
    said = _squeezed(str(section))
    return any(said in _names(place) and _same_page(given.get("page"), place.get("page")) for place in places)


def _names(place: Mapping[str, Any]) -> set[str]:
    label, title = _squeezed(place["section"]), _squeezed(place["title"])
    return {label, title, f"{label} {title}", f"section {label}", f"section {label} {title}"}


def _squeezed(text: str) -> str:
    return " ".join(re.sub(r"[^\w ]+", " ", plain(text)).split())


def _same_page(cited: Any, page: int | None) -> bool:
    if page is None:
        return True
    if isinstance(cited, str):
        return cited.strip().removeprefix("page ") == str(page)
    return not isinstance(cited, bool) and cited == page
