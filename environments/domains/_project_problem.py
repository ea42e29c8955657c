"""From a kind of project to a concrete problem: right code, what is broken in it, and the cases that show it.

    bug      one mistake (levels 1 and 2) or two in different files (level 3), put in by `_project_mutations`
    upgrade  as many changes of a vendored library's API as the level says, by `_project_upgrade`
    tests    a module and mistakes in it, which the tests to be written must notice

A mistake counts only when it was run and seen: on one visible case at least (bug), and on several hidden ones.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from random import Random
from typing import Any

from assay.errors import EnvironmentAuthorError
from assay.ids import canonical_json, content_hash
from assay.records import record
from environments.domains import (
    _project_cache,
    _project_calculator,
    _project_csv_report,
    _project_geometry,
    _project_graph,
    _project_inventory,
    _project_ledger,
    _project_scheduler,
    _project_state_machine,
    _project_template,
    _project_text_index,
)
from environments.domains._project_kind import Case, Files, Kind, Values
from environments.domains._project_mutations import CONTRACT_KINDS, Mutator, Site
from environments.domains._project_rewrite import rewritten
from environments.domains._project_run import Result, failures, is_plain, results
from environments.domains._project_upgrade import ApiChange, candidates, upgraded

KINDS: tuple[Kind, ...] = (
    _project_inventory.KIND,
    _project_ledger.KIND,
    _project_csv_report.KIND,
    _project_calculator.KIND,
    _project_template.KIND,
    _project_state_machine.KIND,
    _project_cache.KIND,
    _project_graph.KIND,
    _project_geometry.KIND,
    _project_scheduler.KIND,
    _project_text_index.KIND,
)
NUM_HIDDEN = 18
NUM_VISIBLE = 5
_NUM_DRAWN = 34
_NUM_TRIES = 60
_MAX_CASE_CHARS = 700
# One to show, and two that stay hidden, so that knowing the shown one is not enough.
_MIN_TELLING = 3
# At level 2 the mistake must be searched for: it may not break nearly everything.
_MAX_SHARE = {1: 1.0, 2: 0.6, 3: 0.8}
_NUM_MUTANTS = {1: 4, 2: 6, 3: 8}
_MIN_KILL_SHARE = {1: 0.2, 2: 0.1, 3: 0.05}


@record
class Problem:
    """A written-out instance. `right` and `broken` are whole projects; `partly` is one that still fails.

    `mistakes` names what was done, `where` the file of a bug, or the module to test. `num_equal` counts mutants
    thrown away because no or hardly any case noticed them. `mutants` are texts of `where`, for `tests` only.
    """

    values: Mapping[str, Any]
    right: Files
    broken: Files
    partly: Files
    visible: tuple[Mapping[str, Any], ...]
    hidden: tuple[Mapping[str, Any], ...]
    num_already_right: int
    mistakes: tuple[str, ...]
    where: str
    notes: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    num_equal: int = 0


@record
class _Bench:
    """A right project with cases, their results, and what happened so far."""

    right: Files
    cases: Sequence[Case]
    results: Sequence[Result]
    rng: Random
    thrown: list[Site] = field(default_factory=list)
    mutators: dict[str, Mutator] = field(default_factory=dict)

    def sites(self, path: str) -> dict[str, list[Site]]:
        """The places for mistakes in a file, by kind."""
        if path not in self.mutators:
            self.mutators[path] = Mutator(self.right, path)
        by_kind: dict[str, list[Site]] = {}
        for site in self.mutators[path].sites:
            by_kind.setdefault(site.kind, []).append(site)
        return by_kind

    def fails(self, overlay: Mapping[str, str], numbers: Sequence[int]) -> bool:
        """Whether any of these cases goes wrong with some files replaced."""
        return bool(self.failing(overlay, numbers, most=1))

    def failing(
        self, overlay: Mapping[str, str], numbers: Sequence[int] | None = None, *, most: int | None = None
    ) -> list[int] | None:
        """The cases (all, or these in this order) that go wrong with some files replaced; None if one never ends."""
        chosen = range(len(self.cases)) if numbers is None else numbers
        found = failures(
            {**self.right, **overlay}, [self.cases[n] for n in chosen], [self.results[n] for n in chosen], most=most
        )
        return found if found is None else [chosen[place] for place in found]

    def told(self, number: int) -> dict[str, Any]:
        target, args = self.cases[number]
        return {"target": target, "args": args, "expected": self.results[number][1]}


@record
class _Mistake:
    site: Site
    text: str
    telling: Sequence[int]


def write_problem(kind: Kind, task_kind: str, level: int, variant: Values, rng: Random) -> Problem:
    """A problem; draws again after an unlucky draw. Raises EnvironmentAuthorError when nothing can be found."""
    for _ in range(_NUM_TRIES // 2):
        values = kind.draw(rng, variant)
        bench = _bench(kind, values, rng, vendored=task_kind == "upgrade")
        made = {"bug": _bug, "upgrade": _upgrade, "tests": _tests}[task_kind](kind, bench, values, level)
        if made is not None:
            return made
    raise EnvironmentAuthorError(
        f"project_repair {kind.id}: no {task_kind} of level {level} shows in its cases with the features {variant}; "
        "change the kind's cases."
    )


@lru_cache(maxsize=1024)
def answer_digest(kind_id: str, task_kind: str, variant: tuple[tuple[str, Any], ...]) -> str:
    """Hash of the right project under the first of all names and constants: the same for all that share features."""
    kind = next(kind for kind in KINDS if kind.id == kind_id)
    return content_hash([task_kind, kind.files(kind.canonical(dict(variant)))])


def _bench(kind: Kind, values: Values, rng: Random, *, vendored: bool) -> _Bench:
    right = kind.files(values, vendored=vendored)
    drawn = {canonical_json(case): case for case in (kind.cases(rng, values) for _ in range(_NUM_DRAWN))}
    cases = list(drawn.values())
    pairs = list(zip(cases, results(right, cases), strict=True))
    kept = [(c, r) for c, r in pairs if is_plain(r) and len(canonical_json([c, r])) < _MAX_CASE_CHARS]
    return _Bench(right=right, cases=[c for c, _ in kept], results=[r for _, r in kept], rng=rng)


def _mistake(
    bench: _Bench,
    paths: Sequence[str],
    share: float,
    *,
    least: int = _MIN_TELLING,
    kinds: Collection[str] = (),
    known: Collection[str] = (),
    most: int | None = None,
) -> _Mistake | None:
    """A mistake that enough cases notice, each kind of a file equally likely; what is hardly noticed is thrown away.

    `kinds`, if given, are the only ones; texts in `known` do not count; it is enough to know `most` of the cases.
    """
    for _ in range(_NUM_TRIES // 2):
        by_kind = bench.sites(bench.rng.choice(paths))
        options = sorted(set(by_kind) & set(kinds or by_kind))
        if not options:
            continue
        site = bench.rng.choice(by_kind[bench.rng.choice(options)])
        text = bench.mutators[site.path].mutant(site)
        telling = None if text in known else bench.failing({site.path: text}, most=most)
        if telling is None:
            continue
        if least <= len(telling) <= share * len(bench.cases):
            return _Mistake(site=site, text=text, telling=telling)
        if len(telling) < least:
            bench.thrown.append(site)
    return None


def _bug(kind: Kind, bench: _Bench, values: Values, level: int) -> Problem | None:
    contract = level == 3 and bench.rng.random() < 0.5
    paths = _modules(bench)
    first = _mistake(bench, paths, _MAX_SHARE[level], kinds=CONTRACT_KINDS if contract else ())
    if first is None:
        return None
    # At level 3 the second mistake is in the project too; else it only serves as a repair that goes astray.
    elsewhere = [path for path in paths if path != first.site.path] if level == 3 else [first.site.path]
    second = _mistake(bench, elsewhere, _MAX_SHARE[level], known=[first.text])
    if second is None:
        return None
    overlay = {first.site.path: first.text, **({second.site.path: second.text} if level == 3 else {})}
    partly = {second.site.path: second.text}
    mistakes = [first, second] if level == 3 else [first]
    shown = mistakes if bench.rng.random() < 0.5 else mistakes[:1]
    return _problem(bench, values, overlay, partly, mistakes, shown, [first.telling, second.telling])


def _modules(bench: _Bench) -> list[str]:
    """The files in which there is something to do."""
    return [path for path in bench.right if not path.endswith(("__init__.py", "/errors.py"))]


def _problem(
    bench: _Bench,
    values: Values,
    overlay: Files,
    partly: Files,
    mistakes: Sequence[_Mistake],
    shown: Sequence[_Mistake],
    tellings: Sequence[Sequence[int]],
) -> Problem | None:
    """The problem, if after choosing cases everything still shows that has to."""
    visible, hidden = _chosen(bench, [mistake.telling for mistake in shown], tellings)
    wrong = bench.failing(overlay, hidden)
    if not wrong or not bench.fails(overlay, visible) or not bench.fails(partly, hidden):
        return None
    return Problem(
        values=values,
        right=bench.right,
        broken={**bench.right, **overlay},
        partly={**bench.right, **partly},
        visible=tuple(map(bench.told, visible)),
        hidden=tuple(map(bench.told, hidden)),
        num_already_right=len(hidden) - len(wrong),
        mistakes=tuple(mistake.site.kind for mistake in mistakes),
        where=mistakes[0].site.path,
        num_equal=len(bench.thrown),
    )


def _chosen(
    bench: _Bench, shown: Sequence[Sequence[int]], tellings: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """Visible and hidden cases, disjoint. The shortest case that shows each of `shown` is visible; of each telling set
    some are hidden, and so are others, which a repair must not break."""
    shortest = [min(telling, key=lambda number: len(canonical_json(bench.cases[number]))) for telling in shown]
    told = {number for telling in tellings for number in telling}
    calm = [number for number in range(len(bench.cases)) if number not in told]
    filled = [*calm[: NUM_VISIBLE - len(shown)], *sorted(told)[: max(0, 2 - len(calm))]]
    visible = list(dict.fromkeys([*shortest, *filled]))
    rest = [number for number in range(len(bench.cases)) if number not in visible]
    first = [number for telling in tellings for number in [n for n in telling if n in rest][:6]]
    hidden = list(dict.fromkeys([*first, *rest]))[:NUM_HIDDEN]
    return visible, sorted(hidden)


def _upgrade(kind: Kind, bench: _Bench, values: Values, level: int) -> Problem | None:
    library = kind.module_paths(values, vendored=True)[kind.library]
    changes = _api_changes(bench, library, level)
    if len(changes) < level:
        return None
    new = upgraded(bench.right, library, changes)
    package = f"{values['pkg']}/"
    vendored = {path: text for path, text in new.files.items() if not path.startswith(package)}
    old = {path: text for path, text in bench.right.items() if path.startswith(package)}
    if level > 1:
        partly = upgraded(bench.right, library, changes[:-1]).files
    else:
        slip = _mistake(replace(bench, right=dict(new.files), mutators={}), list(old), 1.0)
        partly = {**new.files, slip.site.path: slip.text} if slip else {}
    partly = {path: text for path, text in partly.items() if path.startswith(package)}
    broken = {**vendored, **old}
    telling = bench.failing(broken) or []
    if len(telling) < _MIN_TELLING or bench.fails(new.files, range(len(bench.cases))):
        return None
    visible, hidden = _chosen(bench, [telling], [telling])
    wrong = bench.failing(broken, hidden)
    if not wrong or not bench.fails({**vendored, **partly}, hidden):
        return None
    return Problem(
        values=values,
        right=dict(new.files),
        broken=broken,
        partly={**vendored, **partly},
        visible=tuple(map(bench.told, visible)),
        hidden=tuple(map(bench.told, hidden)),
        num_already_right=len(hidden) - len(wrong),
        mistakes=tuple(change.kind for change in changes),
        where=library,
        notes=new.notes,
        num_equal=len(bench.thrown),
    )


def _api_changes(bench: _Bench, library: str, num: int) -> list[ApiChange]:
    """Changes to different functions, each of which the project notices."""
    options = candidates(bench.right, library)
    by_kind: dict[str, list[ApiChange]] = {}
    for option in options:
        by_kind.setdefault(option.kind, []).append(option)
    found: list[ApiChange] = []
    for _ in range(_NUM_TRIES // 4):
        change = bench.rng.choice(by_kind[bench.rng.choice(sorted(by_kind))])
        if change.name in [each.name for each in found]:
            continue
        new = upgraded(bench.right, library, [change]).files
        overlay = {path: text for path, text in new.items() if path.startswith(library.split("/")[0])}
        if len(bench.failing(overlay) or []) >= _MIN_TELLING:
            found.append(change)
        if len(found) == num:
            break
    return found


def _tests(kind: Kind, bench: _Bench, values: Values, level: int) -> Problem | None:
    where = bench.rng.choice([path for path in _modules(bench) if not path.endswith("/app.py")])
    # What breaks every import would be noticed by any test at all.
    kinds = sorted(set(bench.sites(where)) - {"renamed_attribute", "broken_import", "wrong_import"})
    least = max(2, int(_MIN_KILL_SHARE[level] * len(bench.cases)))
    found: list[_Mistake] = []
    while len(found) < _NUM_MUTANTS[level]:
        known = [each.text for each in found]
        mistake = _mistake(bench, [where], 1.0, least=least, kinds=kinds, known=known, most=least)
        if mistake is None:
            return None
        found.append(mistake)
    return _tests_problem(bench, values, where, found)


def _disguised(bench: _Bench, mistake: _Mistake, cases: Sequence[int]) -> str:
    """The mutant in other words, so that no test can tell mutants from right code by their looks."""
    text = rewritten({"": mistake.text})[""]
    return text if bench.fails({mistake.site.path: text}, cases) else mistake.text


def _tests_problem(bench: _Bench, values: Values, where: str, found: Sequence[_Mistake]) -> Problem:
    killers = [number for mistake in found for number in mistake.telling[:2]]
    hidden = sorted(set(killers))
    return Problem(
        values=values,
        right=bench.right,
        broken=bench.right,
        partly={},
        visible=(),
        hidden=tuple(map(bench.told, hidden)),
        num_already_right=0,
        mistakes=tuple(mistake.site.kind for mistake in found),
        where=where,
        mutants=tuple(_disguised(bench, mistake, hidden) if n % 2 else mistake.text for n, mistake in enumerate(found)),
        num_equal=len(bench.thrown),
    )
