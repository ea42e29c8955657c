"""The same program in other words: right code that looks different, and the edits that lead from text to text."""

import ast
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache

_MIRRORED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}


def rewritten(files: Mapping[str, str]) -> dict[str, str]:
    """Every file with other local names, mirrored comparisons, exchanged branches and no docstrings."""
    return {path: _rewritten(text) for path, text in files.items()}


@lru_cache(maxsize=512)
def _rewritten(text: str) -> str:
    tree = _OtherWords().visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _OtherWords(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        # Parameters keep their names, for callers may use them; so does what a lambda calls one of its own.
        taken = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        own = {each.id for each in names if isinstance(each.ctx, ast.Store)} - taken
        for each in names:
            each.id = f"the_{each.id}" if each.id in own else each.id
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and (mirrored := _MIRRORED.get(type(node.ops[0]))):
            return ast.Compare(node.comparators[0], [mirrored()], [node.left])
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if node.orelse and not isinstance(node.orelse[0], ast.If):
            return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant):
            read = ast.Name(node.target.id, ast.Load())
            return ast.Assign([node.target], ast.BinOp(read, node.op, node.value))
        return node


def hunks(old: str, new: str) -> list[tuple[str, str]]:
    """Replacements, each of a text that occurs exactly once, which in turn make `new` of `old`.

    >>> hunks("a = 1\\nb = 2\\n", "a = 1\\nb = 3\\n")
    [('b = 2\\n', 'b = 3\\n')]
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    changed = [op for op in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if op[0] != "equal"]
    found, text = [], old
    # From the end to the start, so that line numbers before a replacement stay as they are.
    for _, first, last, other_first, other_last in reversed(changed):
        wanted = "".join(after[other_first:other_last])
        piece, put = _unique(before, first, last, wanted, text)
        text = text.replace(piece, put)
        found.append((piece, put))
    assert text == new
    return found


def _unique(lines: list[str], first: int, last: int, wanted: str, text: str) -> tuple[str, str]:
    """The lines with as many before them as make them unique in the text, and what replaces them."""
    start = first
    while True:
        piece, put = "".join(lines[start:last]), "".join(lines[start:first]) + wanted
        if piece and text.find(piece) == text.rfind(piece):
            return piece, put
        if start == 0:
            # The head of a file repeats later on: the whole text as it is now is unique in any case.
            return text, put + text[len(piece) :]
        start -= 1
