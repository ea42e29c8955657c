"""Version 2 of a library that a project vendors: other names, other parameters, other results, other places.

    candidates(files, library) -> changes of the API that the project would notice
    upgraded(files, library, changes) -> the library and the project in version 2, and the lines of a changelog

Both sides are changed through their syntax trees, so a project in version 2 does exactly what it did in version 1.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.records import record

Trees = dict[str, ast.Module]


@record
class ApiChange:
    """`kind` of change to the function, class or method `name`."""

    kind: str
    name: str


@record
class Upgrade:
    """Sources by path in version 2, and what the changelog says."""

    files: Mapping[str, str]
    notes: tuple[str, ...]


def candidates(files: Mapping[str, str], library: str) -> list[ApiChange]:
    """Changes to what the project uses of the library at path `library`, in a fixed order."""
    trees = {path: ast.parse(text) for path, text in files.items()}
    used = {
        alias.name for path, tree in trees.items() if path != library for alias in _imported(tree, _dotted(library))
    }
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    shadowed = _shadowed(nodes)
    found = []
    for node in trees[library].body:
        if isinstance(node, ast.FunctionDef) and node.name in used and node.name not in shadowed:
            found += [ApiChange(kind=kind, name=node.name) for kind in _fitting(node, nodes, trees[library])]
        if isinstance(node, ast.ClassDef) and node.name in used:
            found.append(ApiChange(kind="renamed", name=node.name))
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            found += [ApiChange(kind="renamed_method", name=m) for m in methods if _only_there(m, nodes)]
    return found


def upgraded(files: Mapping[str, str], library: str, changes: Sequence[ApiChange]) -> Upgrade:
    """Everything in version 2."""
    names = [change.name for change in changes]
    touched = {path: text for path, text in files.items() if path == library or any(name in text for name in names)}
    trees = {path: ast.parse(text) for path, text in touched.items()}
    notes = [_ACTS[change.kind](trees, library, change.name) for change in changes]
    texts = {path: ast.unparse(ast.fix_missing_locations(tree)) + "\n" for path, tree in trees.items()}
    return Upgrade(files={**files, **texts}, notes=tuple(notes))


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _imported(tree: ast.Module, module: str) -> list[ast.alias]:
    return [
        alias
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    ]


def _shadowed(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are also variables or parameters somewhere: changing them by name would hit these too."""
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _only_there(method: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether a method's name is defined once, is used, and is nothing that builtin types have too."""
    defined = sum(isinstance(node, ast.FunctionDef) and node.name == method for node in nodes)
    used = any(isinstance(node, ast.Attribute) and node.attr == method for node in nodes)
    known = any(hasattr(kind, method) for kind in (list, dict, str, set, tuple))
    return defined == 1 and used and not known and not method.startswith("_")


def _calls(trees: Trees, name: str) -> list[ast.Call]:
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    return [node for node in nodes if isinstance(node, ast.Call) and _is(node.func, name)]


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _fitting(node: ast.FunctionDef, nodes: Sequence[ast.AST], library: ast.Module) -> list[str]:
    """Kinds of change that a function can have."""
    calls = [each for each in nodes if isinstance(each, ast.Call) and _is(each.func, node.name)]
    arguments, num_defaults = node.args.args, len(node.args.defaults)
    called_only = sum(_is(each, node.name) for each in nodes) == len(calls)
    kinds = ["renamed"]
    if not calls or not called_only:
        return kinds
    if len(arguments) - num_defaults >= 2 and all(len(call.args) >= 2 for call in calls):
        kinds.append("reordered")
    if len(arguments) >= 2 and any(len(call.args) >= 2 for call in calls):
        kinds.append("keyword_only")
    if not any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)):
        kinds.append("wrapped_result")
    if num_defaults == 1 and any(len(call.args) + len(call.keywords) < len(arguments) for call in calls):
        kinds.append("required_parameter")
    own = {each.name for each in library.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))} - {node.name}
    if not any(isinstance(each, ast.Name) and each.id in own for each in ast.walk(node)):
        kinds.append("moved")
    return kinds


def _function(trees: Trees, library: str, name: str) -> ast.FunctionDef:
    return next(node for node in trees[library].body if isinstance(node, ast.FunctionDef) and node.name == name)


def _renamed(trees: Trees, library: str, name: str) -> str:
    new = f"{name}Kind" if name[0].isupper() else f"make_{name}"
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if _is(node, name):
            node.id = new  # type: ignore[attr-defined]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)) and node.name == name:
            node.name = new
    return f"`{name}` is now called `{new}`."


def _renamed_method(trees: Trees, library: str, name: str) -> str:
    new = f"do_{name}"
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr == name:
            node.attr = new
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            node.name = new
    return f"The method `{name}` is now called `{new}`."


def _reordered(trees: Trees, library: str, name: str) -> str:
    arguments = _function(trees, library, name).args.args
    arguments[0], arguments[1] = arguments[1], arguments[0]
    for call in _calls(trees, name):
        call.args[0], call.args[1] = call.args[1], call.args[0]
    return f"`{name}` takes `{arguments[0].arg}` first, then `{arguments[1].arg}`."


def _keyword_only(trees: Trees, library: str, name: str) -> str:
    given = _function(trees, library, name).args
    names = [each.arg for each in given.args]
    given.kwonlyargs, given.args = given.args[1:], given.args[:1]
    num_required = len(given.kwonlyargs) - len(given.defaults)
    given.kw_defaults, given.defaults = [*[None] * num_required, *given.defaults], []
    for call in _calls(trees, name):
        call.keywords = [ast.keyword(n, v) for n, v in zip(names[1:], call.args[1:], strict=False)] + call.keywords
        call.args = call.args[:1]
    return f"`{name}` takes {_listed(names[1:])} by name only."


def _wrapped_result(trees: Trees, library: str, name: str) -> str:
    for node in ast.walk(_function(trees, library, name)):
        if isinstance(node, ast.Return) and node.value is not None:
            node.value = ast.Dict([ast.Constant("value")], [node.value])
    _Unwrap(name).wrap(trees)
    return f"`{name}` returns a dictionary; what it returned before is under `value`."


class _Unwrap(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def wrap(self, trees: Trees) -> None:
        for tree in trees.values():
            self.visit(tree)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Subscript(node, ast.Constant("value"), ast.Load()) if _is(node.func, self._name) else node


def _required_parameter(trees: Trees, library: str, name: str) -> str:
    given = _function(trees, library, name).args
    default, last = given.defaults.pop(), given.args[-1].arg
    for call in _calls(trees, name):
        if len(call.args) < len(given.args) and last not in {keyword.arg for keyword in call.keywords}:
            call.keywords.append(ast.keyword(last, default))
    return f"`{name}` needs `{last}`, which was `{ast.unparse(default)}` when it was left out."


def _moved(trees: Trees, library: str, name: str) -> str:
    extra = library.replace(".py", "_extra.py")
    function = _function(trees, library, name)
    trees[library].body.remove(function)
    trees.setdefault(extra, ast.parse(f'"""More of {_dotted(library)}."""')).body.append(function)
    for path, tree in trees.items():
        if path == library and any(_is(node, name) for node in ast.walk(tree)):
            _add_import(tree, _dotted(extra), name)
        for node in [node for node in tree.body if isinstance(node, ast.ImportFrom)]:
            if node.module == _dotted(library) and name in [alias.name for alias in node.names]:
                node.names = [alias for alias in node.names if alias.name != name]
                tree.body = [each for each in tree.body if each is not node or node.names]
                _add_import(tree, _dotted(extra), name)
    return f"`{name}` has moved to `{_dotted(extra)}`."


def _add_import(tree: ast.Module, module: str, name: str) -> None:
    place = 1 if ast.get_docstring(tree) is not None else 0
    tree.body.insert(place, ast.ImportFrom(module, [ast.alias(name)], 0))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


_ACTS: Mapping[str, Callable[[Any, str, str], str]] = {
    "renamed": _renamed,
    "renamed_method": _renamed_method,
    "reordered": _reordered,
    "keyword_only": _keyword_only,
    "wrapped_result": _wrapped_result,
    "required_parameter": _required_parameter,
    "moved": _moved,
}
