"""A stateful service behind tools: a SQLite database in memory, operations on it, keys against doing things twice.

    Desk.call("refund_item", {...}) -> fault due? -> key known? -> transaction(operation, key)
                                    -> {"id": ...} or {"error": {"code": ..., "message": ...}}

An effect takes a `key`: the same key with the same arguments gives the first result again and changes nothing; with
other arguments it is an error. Ids of new rows follow from what is in them, so the order of independent effects
leaves no trace in the state.

Faults are part of the task: they hit the n-th call of one tool.

    transient   nothing is done, "try again"
    timeout     done or not (`lands`), and the caller is not told which
    conflict    someone else changes a row just before (`table`, `id`, `set`), so a stale version is refused
    cut         a page of results ends after `keep` items, with the cursor that goes on
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.ids import canonical_json, content_hash
from assay.records import Tool, record
from environments.domains import _tool_use_state as state
from environments.domains._tool_use_state import Diff, Dump, plain

Arguments = Mapping[str, Any]
Limits = Mapping[str, int]
TODAY = "2031-05-14"

ID: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 40}
TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
CENTS: Mapping[str, Any] = {"type": "integer", "minimum": 1, "maximum": 10**9, "description": "amount in cents"}
CURSOR: Mapping[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10**6, "description": "next_cursor so far"}
VERSION: Mapping[str, Any] = {"type": "integer", "minimum": 1, "maximum": 10**9, "description": "version last seen"}
DATE: Mapping[str, Any] = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "YYYY-MM-DD"}
TIME: Mapping[str, Any] = {"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$", "description": "HH:MM"}
_KEY = {**ID, "description": "your own name for this effect; reuse it to repeat a call without doing it twice"}
_KEYS = "CREATE TABLE _keys (id TEXT PRIMARY KEY, tool TEXT, arguments TEXT, result TEXT);"
PAGE = 4


class Refused(Exception):
    """A service says no; `code` is one word, the message says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@record
class Operation:
    """A tool and what it does. `repeatable` effects succeed a second time when they get another key."""

    tool: Tool
    run: Callable[[sqlite3.Connection, Arguments], dict[str, Any]]
    effect: bool = False
    repeatable: bool = False


@record
class Service:
    """`rules` is the policy as told, filled with one of `limits`; `broken_rules` finds breaches of it in the data.

    `secrets` names columns whose values may be in no answer and no argument; `reasons` are those of `refuse`.
    """

    id: str
    about: str
    schema: str
    operations: tuple[Operation, ...]
    rules: tuple[str, ...]
    limits: tuple[Limits, ...]
    reasons: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]
    broken_rules: Callable[[Dump, Diff, Limits], list[str]]

    def operation(self, name: str) -> Operation:
        return next(each for each in self.operations if each.tool.name == name)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the policy may call: the operations, then the two ways to end."""
        reason = {"type": "string", "enum": list(self.reasons)}
        return (
            *(each.tool for each in self.operations),
            _tool("finish", "End: the request is done. Give what was asked for, and nothing else.", (), answer=_ANSWER),
            _tool(
                "refuse",
                "End: the policy forbids the request, or what is left of it. `subject` is the id of what it is about.",
                ("reason", "subject"),
                reason=reason,
                subject=ID,
            ),
        )


_ANSWER = {"type": "string", "maxLength": 500}
ENDINGS = ("finish", "refuse")


def lookup(name: str, about: str, required: Sequence[str], run: Callable[..., Any], /, **properties: Any) -> Operation:
    """An operation that changes nothing."""
    return Operation(tool=_tool(name, about, required, **properties), run=run)


def effect(
    name: str,
    about: str,
    required: Sequence[str],
    run: Callable[..., Any],
    /,
    *,
    repeatable: bool = False,
    **properties: Any,
) -> Operation:
    """An operation that changes something; it takes a `key`."""
    tool = _tool(name, about, (*required, "key"), **properties, key=_KEY)
    return Operation(tool=tool, run=run, effect=True, repeatable=repeatable)


class Desk:
    """One service at work in one episode. `log` holds every call with what came of it."""

    def __init__(self, service: Service, world: Mapping[str, Any], faults: Sequence[Mapping[str, Any]] = ()) -> None:
        self.service = service
        self.log: list[dict[str, Any]] = []
        self._faults = list(faults)
        self._num_calls: dict[str, int] = {}
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.row_factory = None
        self._database.executescript(_KEYS + service.schema)
        state.load(self._database, world)

    def call(self, name: str, arguments: Arguments) -> dict[str, Any]:
        """The result, or `{"error": {"code": ..., "message": ...}}`."""
        operation, fault = self.service.operation(name), self._due(name)
        try:
            result = self._carry_out(operation, arguments, fault)
            error = ""
        except Refused as refused:
            result = {"error": {"code": refused.code, "message": str(refused)}}
            error = refused.code
        entry = {"tool": name, "arguments": dict(arguments), "error": error, "fault": fault["kind"] if fault else ""}
        self.log.append(entry)
        return result

    def dump(self, *, private: bool = False) -> Dump:
        return state.dump(self._database, private=private)

    def close(self) -> None:
        self._database.close()

    def _due(self, name: str) -> Mapping[str, Any] | None:
        number = self._num_calls[name] = self._num_calls.get(name, 0) + 1
        return next((f for f in self._faults if f["tool"] == name and f["call"] == number), None)

    def _carry_out(self, operation: Operation, given: Arguments, fault: Mapping[str, Any] | None) -> dict[str, Any]:
        kind = fault["kind"] if fault else ""
        if fault and kind == "transient":
            raise Refused("unavailable", "The service is busy and did nothing. Call again.")
        if fault and kind == "timeout":
            if fault["lands"]:
                self._run(operation, given)
            raise Refused("timeout", "No answer in time. The call may or may not have been carried out.")
        if fault and kind == "conflict":
            self._interfere(fault)
        result = self._run(operation, given)
        return _cut(result, given, fault["keep"]) if fault and kind == "cut" else result

    def _interfere(self, fault: Mapping[str, Any]) -> None:
        values = fault["set"]
        columns = ", ".join(f'"{name}" = ?' for name in values)
        self._database.execute(
            f'UPDATE "{fault["table"]}" SET {columns}, version = version + 1 WHERE id = ?',
            (*values.values(), fault["id"]),
        )

    def _run(self, operation: Operation, given: Arguments) -> dict[str, Any]:
        if not operation.effect:
            return operation.run(self._database, given)
        name, said = operation.tool.name, canonical_json({k: v for k, v in given.items() if k != "key"})
        known = one(self._database, "SELECT tool, arguments, result FROM _keys WHERE id = ?", given["key"])
        if known and (known["tool"], known["arguments"]) != (name, said):
            raise Refused("key_reused", "This key belongs to another call. Choose a new key.")
        return json.loads(known["result"]) if known else self._effect(operation, given, said)

    def _effect(self, operation: Operation, given: Arguments, said: str) -> dict[str, Any]:
        """Effect and key are kept together or not at all."""
        self._database.execute("BEGIN")
        try:
            result = canonical_json(operation.run(self._database, given))
            row = (given["key"], operation.tool.name, said, result)
            self._database.execute("INSERT INTO _keys VALUES (?, ?, ?, ?)", row)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return json.loads(result)


def replay(service: Service, world: Mapping[str, Any], faults: Sequence[Any], calls: Sequence[Any]) -> Desk:
    """A desk after these calls: `(name, arguments)` each. The caller closes it."""
    desk = Desk(service, world, faults)
    for name, arguments in calls:
        desk.call(name, arguments)
    return desk


def rows(database: sqlite3.Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    cursor = database.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def one(database: sqlite3.Connection, query: str, *values: Any) -> dict[str, Any] | None:
    return next(iter(rows(database, query, *values)), None)


def get(database: sqlite3.Connection, table: str, key: str) -> dict[str, Any]:
    """The row. Raises Refused when there is none."""
    found = one(database, f'SELECT * FROM "{table}" WHERE id = ?', key)
    if found is None:
        raise Refused("not_found", f"There is no {key!r} in {table}.")
    return found


def fresh(database: sqlite3.Connection, table: str, key: str, version: int) -> dict[str, Any]:
    """The row, if `version` is still its version. Raises Refused."""
    found = get(database, table, key)
    if found["version"] != version:
        raise Refused("stale_version", f"{key} was changed and is at version {found['version']} now. Read it again.")
    return found


def change(database: sqlite3.Connection, table: str, key: str, **values: Any) -> dict[str, Any]:
    """The row with new values; a version it has goes up by one."""
    if "version" in get(database, table, key):
        values["version"] = get(database, table, key)["version"] + 1
    columns = ", ".join(f'"{name}" = ?' for name in values)
    database.execute(f'UPDATE "{table}" SET {columns} WHERE id = ?', (*values.values(), key))
    return get(database, table, key)


def insert(database: sqlite3.Connection, table: str, prefix: str, **values: Any) -> dict[str, Any]:
    """A new row, whose id follows from its content and how many equal ones there were before it."""
    content = {name: plain(value) if isinstance(value, str) else value for name, value in values.items()}
    number = 0
    while one(database, f'SELECT id FROM "{table}" WHERE id = ?', key := _new_id(prefix, content, number)):
        number += 1
    row = {"id": key, **values}
    state.load(database, {table: {key: row}})
    return row


def page(found: Sequence[dict[str, Any]], given: Arguments) -> dict[str, Any]:
    """Some of the results, and where the next ones begin (None: these were the last)."""
    start = given.get("cursor", 0)
    end = start + PAGE
    return {"items": list(found[start:end]), "next_cursor": end if end < len(found) else None}


def _cut(result: dict[str, Any], given: Arguments, keep: int) -> dict[str, Any]:
    if len(result["items"]) <= keep:
        return result
    return {"items": result["items"][:keep], "next_cursor": given.get("cursor", 0) + keep}


def _new_id(prefix: str, content: Arguments, number: int) -> str:
    return f"{prefix}-{int(content_hash([prefix, content, number]), 16) % 10**8:08d}"


def _tool(name: str, about: str, required: Sequence[str], /, **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool(name=name, description=about, parameters=schema)
