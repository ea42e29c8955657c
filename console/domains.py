"""`assay domains`: the catalogue. What there is, what it is worth, what it takes, and whether it is proven."""

from collections.abc import Mapping

from assay.errors import AssayError
from assay.registry import build_plugin, known_plugins
from console.output import one_line, put, put_json, say, table
from console.runs import Row, rows
from console.sql import open_catalog
from environments.base import Domain
from environments.catalogue import build_domain, known_domains
from storage import named
from tasks.catalogue import domain_row


def every(*, as_json: bool) -> int:
    """List every domain that can be used here by its name; the exit code is 1 when one does not load."""
    standing = _standings()
    views = [_view(name, standing) for name in known_domains()]
    if as_json:
        put_json(views)
    else:
        put(_listing(views))
        for line in _ending(views):
            say(line)
    return 1 if any(each["fault"] for each in views) else 0


def one(name: str, *, as_json: bool) -> int:
    """One domain's card."""
    view = _view(name, _standings())
    if as_json:
        put_json(view)
    else:
        put("\n".join(f"{key:<18} {one_line(value)}" for key, value in view.items() if value not in ("", None, [])))
    return 1 if view["fault"] else 0


def _view(name: str, standing: Mapping[str, Row]) -> Row:
    """A domain as plain values: its card, and its certificates in the store."""
    try:
        domain: Domain = build_domain(name)
        card = domain_row(name, domain, "")
    except AssayError as error:
        return {"domain": name, "fault": str(error), "state": "does not load"}
    del card["run_id"], card["left_out_json"]
    left_out = [each.line() for each in domain.left_out()]
    return {**card, "state": _state(standing.get(name)), "left_out": left_out, "fault": ""}


def _standings() -> dict[str, Row]:
    catalog = open_catalog()
    return {row["domain"]: row for row in rows(catalog, named.load("catalogue").sql)}


def _state(row: Row | None) -> str:
    """How its tasks in the store stand, in words."""
    if row is None or not row["num_tasks"]:
        return "not inspected"
    told = [f"{row['num_trusted']} of {row['num_tasks']} proven"]
    told += [f"{row['num_quarantined']} quarantined"] if row["num_quarantined"] else []
    return ", ".join(told)


def _listing(views: list[Row]) -> str:
    heads = ["domain", "kind", "levels", "tasks", "seconds", "licence", "state"]
    return table(heads, [_cells(view) for view in views])


def _cells(view: Row) -> list[str]:
    if view["fault"]:
        return [view["domain"], "", "", "", "", "", f"does not load: {one_line(view['fault'], 60)}"]
    levels = view["levels"]
    span = f"{min(levels)}-{max(levels)}" if len(levels) > 1 else str(levels[0])
    num = "endless" if view["num_train"] is None else str(view["num_train"] + (view["num_heldout"] or 0))
    return [view["domain"], view["kind"], span, num, f"{view['expected_s']:g}", view["licence"], view["state"]]


def _ending(views: list[Row]) -> list[str]:
    """The count, and what else could be had."""
    loaded = sum(not view["fault"] for view in views)
    lines = [f"{loaded} domains load, {len(views) - loaded} do not"]
    told = {name: build_plugin("format", name).missing() for name in known_plugins("format")}
    return [*lines, *(f"{name}: {missing}" for name, missing in told.items() if missing)]
