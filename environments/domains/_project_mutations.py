"""Mistakes of programmers, put into right code through its syntax tree.

    Mutator(files, path).sites         -> every place of a file where some kind of mistake fits
    Mutator(files, path).mutant(site)  -> that file with the mistake in it

A site is no promise that behaviour changes: whoever uses it runs the mutant (`_project_run`) and throws equals away.
To add a kind, yield it from one of the `_on_...` functions; everything else follows.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from assay.records import record

Change = tuple[str, Callable[[], None]]
"""The kind of mistake, and what puts it into the tree."""

CONTRACT_KINDS = frozenset(
    {"renamed_attribute", "broken_import", "parameter_order", "swapped_result", "unit_change", "wrong_key"}
)
"""Kinds that break an agreement between files."""

_BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_FLIPPED = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "startswith": "endswith", "find": "rfind"}
_UNITS = (60, 100, 1000)


@record
class Site:
    """`place` counts the nodes of the file as `ast.walk` meets them, `number` the changes at that node."""

    kind: str
    path: str
    place: int
    number: int


@record
class _Around:
    """What a change may need to know: variables by the name that is read, and the sources by dotted module name."""

    names: Mapping[int, tuple[str, ...]]
    modules: Mapping[str, str]


class Mutator:
    """Makes mutants of one file of a project; the file itself stays as it is."""

    def __init__(self, files: Mapping[str, str], path: str) -> None:
        self._tree = ast.parse(files[path])
        self._nodes = list(ast.walk(self._tree))
        self._around = _Around(names=_local_names(self._tree), modules=_modules(files))
        self.sites = [
            Site(kind=kind, path=path, place=place, number=number)
            for place, node in enumerate(self._nodes)
            for number, (kind, _) in enumerate(_changes(node, self._around))
        ]
        """Every place for a mistake, in a fixed order."""

    def mutant(self, site: Site) -> str:
        """The file with the mistake in it."""
        node = self._nodes[site.place]
        undo = _memory(node, 3)
        try:
            list(_changes(node, self._around))[site.number][1]()
            return ast.unparse(self._tree) + "\n"
        finally:
            for owner, name, value, items in undo:
                setattr(owner, name, value)
                if isinstance(value, list):
                    value[:] = items


def _memory(node: ast.AST, depth: int) -> list[tuple[ast.AST, str, Any, list[Any]]]:
    """The fields of a node and of those below it, so that any change there can be taken back."""
    found = []
    for name, value in ast.iter_fields(node):
        items = list(value) if isinstance(value, list) else []
        found.append((node, name, value, items))
        for below in items or [value]:
            if depth and isinstance(below, ast.AST) and not isinstance(below, ast.expr_context):
                found += _memory(below, depth - 1)
    return found


def _modules(files: Mapping[str, str]) -> dict[str, str]:
    return {path.removesuffix(".py").replace("/", "."): text for path, text in files.items()}


@lru_cache(maxsize=512)
def _defined(text: str) -> tuple[str, ...]:
    """The functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return tuple(node.name for node in ast.parse(text).body if isinstance(node, kinds))


def _local_names(tree: ast.Module) -> dict[int, tuple[str, ...]]:
    """For each name that is read in a function: the other variables of that function."""
    found: dict[int, tuple[str, ...]] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            own = [each.arg for each in function.args.args if each.arg != "self"]
            nodes = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
            own += [node.id for node in nodes if isinstance(node.ctx, ast.Store)]
            known = tuple(dict.fromkeys(own))
            found |= {id(node): known for node in nodes if isinstance(node.ctx, ast.Load) and node.id in known}
    return found


def _changes(node: ast.AST, around: _Around) -> Iterator[Change]:
    for kind, act in _BY_TYPE.get(type(node), ()):
        yield from act(node, around) if kind == "around" else act(node)
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for place in range(len(block)):
                yield from _on_statement(block, place)


def _set(node: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _put(items: list[Any], place: int, value: Any) -> Callable[[], None]:
    return lambda: items.__setitem__(place, value)


def _drop_last(items: list[Any]) -> Callable[[], None]:
    return lambda: items.__delitem__(-1)


def _drop(block: list[ast.stmt], place: int) -> Callable[[], None]:
    return lambda: block.__setitem__(slice(place, place + 1), [] if len(block) > 1 else [ast.Pass()])


def _on_statement(block: list[ast.stmt], place: int) -> Iterator[Change]:
    node = block[place]
    if isinstance(node, ast.If):
        if node.orelse:
            yield "dropped_branch", _set(node, "orelse", [])
            yield "dropped_branch", lambda: block.__setitem__(slice(place, place + 1), node.orelse)
        else:
            yield "dropped_branch", _drop(block, place)
    elif isinstance(node, ast.Return) and node.value is not None:
        if not isinstance(node.value, ast.Constant):
            yield "missing_return", _put(block, place, ast.Expr(node.value))
    elif isinstance(node, ast.Assign) and _is_reset(node):
        yield "stale_cache", _drop(block, place)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "dropped_call", _drop(block, place)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) and node.value.value is not None:
        yield "lost_yield", _put(block, place, ast.Return(ast.List([node.value.value], ast.Load())))
    elif isinstance(node, ast.AugAssign):
        yield "dropped_update", _drop(block, place)
    elif isinstance(node, ast.Continue):
        yield "wrong_exit", _put(block, place, ast.Break())
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield "wrong_exception", _set(node.exc, "func", ast.Name("ValueError", ast.Load()))


def _is_reset(node: ast.Assign) -> bool:
    """`self._cached_total = None`: what was computed before does not hold any longer."""
    target = node.targets[0]
    empty = isinstance(node.value, ast.Constant) and node.value.value is None
    return empty and isinstance(target, ast.Attribute) and target.attr.startswith("_cached")


def _on_compare(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        if type(operator) in _BOUNDARY:
            yield "boundary", _put(node.ops, place, _BOUNDARY[type(operator)]())
        yield "comparison_flip", _put(node.ops, place, _FLIPPED[type(operator)]())
    for place, side in enumerate(node.comparators):
        if isinstance(side, ast.Constant) and isinstance(side.value, str) and len(side.value) > 1:
            yield "wrong_key", _put(node.comparators, place, ast.Constant(_misspelt(side.value)))


def _on_operation(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    if type(node.op) in _OPERATORS:
        yield "wrong_operator", _set(node, "op", _OPERATORS[type(node.op)]())
    right = node.right if isinstance(node, ast.BinOp) else node.value
    if isinstance(right, ast.Constant) and right.value in _UNITS:
        yield "unit_change", _set(right, "value", right.value * 10 if right.value != 60 else 24)


def _on_constant(node: ast.Constant) -> Iterator[Change]:
    if type(node.value) is int:
        yield "off_by_one", _set(node, "value", node.value + 1)
        if node.value > 0:
            yield "off_by_one", _set(node, "value", node.value - 1)
    elif type(node.value) is bool:
        yield "wrong_constant", _set(node, "value", not node.value)


def _on_call(node: ast.Call) -> Iterator[Change]:
    args = node.args
    if len(args) >= 2 and not any(isinstance(arg, ast.Starred) for arg in args):
        yield "swapped_arguments", lambda: args.__setitem__(slice(0, 2), [args[1], args[0]])
    for keyword in node.keywords:
        if keyword.arg == "key":
            yield "lost_order", lambda keyword=keyword: node.keywords.remove(keyword)  # type: ignore[misc]
    if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
        yield "wrong_function", _set(node.func, "id", _TWINS[node.func.id])
    if isinstance(node.func, ast.Attribute) and node.func.attr in _TWINS:
        yield "wrong_function", _set(node.func, "attr", _TWINS[node.func.attr])
    if isinstance(node.func, ast.Attribute) and node.func.attr == "strip":
        yield "wrong_function", _set(node.func, "attr", "lstrip")


def _on_function(node: ast.FunctionDef) -> Iterator[Change]:
    defaults = node.args.defaults
    for place, default in enumerate(defaults):
        if isinstance(default, ast.Constant) and type(default.value) is int:
            yield "wrong_default", _put(defaults, place, ast.Constant(default.value + 1))
        elif isinstance(default, ast.Constant) and type(default.value) is bool:
            yield "wrong_default", _put(defaults, place, ast.Constant(not default.value))
        elif isinstance(default, ast.Constant) and isinstance(default.value, str):
            yield "wrong_default", _put(defaults, place, ast.Constant(default.value[:-1] or "?"))
        elif guard := _guard(node, node.args.args[place - len(defaults)].arg):
            yield "mutable_default", lambda p=place, g=guard: _unguard(node, p, g)  # type: ignore[misc]
    own = [arg for arg in node.args.args if arg.arg != "self"]
    if len(own) >= 2 and len(own) - len(defaults) >= 2:
        first = node.args.args.index(own[0])
        swapped = slice(first, first + 2)
        yield "parameter_order", lambda: node.args.args.__setitem__(swapped, [own[1], own[0]])
    if not node.name.startswith("__"):
        yield "renamed_attribute", _set(node, "name", f"{node.name}_now")


def _guard(node: ast.FunctionDef, name: str) -> ast.If | None:
    """The statement `if name is None: name = ...` of a function."""
    for statement in node.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == f"{name} is None":
            first = statement.body[0]
            if isinstance(first, ast.Assign) and ast.unparse(first.targets[0]) == name:
                return statement
    return None


def _unguard(node: ast.FunctionDef, place: int, guard: ast.If) -> None:
    assigned = guard.body[0]
    assert isinstance(assigned, ast.Assign)
    node.args.defaults[place] = assigned.value
    node.body.remove(guard)


def _on_slice(node: ast.Slice) -> Iterator[Change]:
    lower, upper = node.lower, node.upper
    if lower is None and node.step is None:
        yield "slice_boundary", _set(node, "lower", ast.Constant(1))
    if upper is not None:
        yield "slice_boundary", _set(node, "upper", ast.BinOp(upper, ast.Sub(), ast.Constant(1)))
        yield "slice_boundary", _set(node, "upper", ast.BinOp(upper, ast.Add(), ast.Constant(1)))
    if lower is not None and not isinstance(lower, ast.Constant):
        yield "slice_boundary", _set(node, "lower", ast.BinOp(lower, ast.Add(), ast.Constant(1)))
    if node.step is not None:
        yield "slice_boundary", _set(node, "step", None)


def _on_name(node: ast.Name, around: _Around) -> Iterator[Change]:
    others = [name for name in around.names.get(id(node), ()) if name != node.id]
    for name in others[:2]:
        yield "wrong_variable", _set(node, "id", name)


def _on_condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[Change]:
    test = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield "negated_condition", _set(node, "test", test.operand)
    else:
        yield "negated_condition", _set(node, "test", ast.UnaryOp(ast.Not(), test))


def _on_bool(node: ast.BoolOp) -> Iterator[Change]:
    yield "wrong_logic", _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    yield "lost_condition", _drop_last(node.values)


def _on_sign(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "lost_sign", _set(node, "op", ast.UAdd())


def _on_handler(node: ast.ExceptHandler) -> Iterator[Change]:
    if isinstance(node.type, ast.Name):
        yield "wrong_exception", _set(node, "type", ast.Name("KeyError", ast.Load()))


def _on_result(node: ast.Return) -> Iterator[Change]:
    if isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        items = node.value.elts
        yield "swapped_result", lambda: items.reverse()


def _on_import(node: ast.ImportFrom, around: _Around) -> Iterator[Change]:
    for place, alias in enumerate(node.names):
        others = [name for name in _defined(around.modules.get(node.module or "", "")) if name != alias.name]
        for name in others[:1]:
            yield "wrong_import", _put(node.names, place, ast.alias(name, alias.name))
    if len(node.names) == 1 and node.module:
        elsewhere = [module for module in around.modules if module != node.module and "." in module]
        for module in elsewhere[:1]:
            yield "broken_import", _set(node, "module", module)


def _on_subscript(node: ast.Subscript) -> Iterator[Change]:
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        yield "wrong_key", _set(node.slice, "value", _misspelt(node.slice.value))


def _misspelt(word: str) -> str:
    return word[:-1] if word.endswith("s") else f"{word}s"


_BY_TYPE: dict[type[ast.AST], tuple[tuple[str, Callable[..., Iterator[Change]]], ...]] = {
    ast.Compare: (("", _on_compare),),
    ast.BinOp: (("", _on_operation),),
    ast.AugAssign: (("", _on_operation),),
    ast.Constant: (("", _on_constant),),
    ast.Call: (("", _on_call),),
    ast.FunctionDef: (("", _on_function),),
    ast.Slice: (("", _on_slice),),
    ast.Name: (("around", _on_name),),
    ast.If: (("", _on_condition),),
    ast.While: (("", _on_condition),),
    ast.IfExp: (("", _on_condition),),
    ast.BoolOp: (("", _on_bool),),
    ast.UnaryOp: (("", _on_sign),),
    ast.ExceptHandler: (("", _on_handler),),
    ast.Return: (("", _on_result),),
    ast.ImportFrom: (("around", _on_import),),
    ast.Subscript: (("", _on_subscript),),
}
