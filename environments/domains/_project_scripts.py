"""What an agent may do with a project: right, plausible but wrong, and other right ways, as scripts of tool calls.

They are made from the task alone, so that inspection can play them at any time.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any

from assay.records import TaskSpec
from environments.base import Script, Solutions
from environments.domains._project_rewrite import hunks, rewritten
from environments.domains._project_visible import RUN_TESTS, as_tests
from environments.tools import say_call

_MAX_CALLS = 12


def repair_solutions(task: TaskSpec) -> Solutions:
    """Of a bug or an upgrade."""
    files, hidden = task.public["files"], task.hidden
    solution, partly = hidden["solution"], hidden["partly"]
    own = {path: text for path, text in files.items() if path.startswith(f"{task.public['package']}/")}
    changed = {path: text for path, text in solution.items() if files.get(path) != text}
    half = _written({path: text for path, text in partly.items() if files.get(path) != text})
    special = _written(_special_cased(task))
    return Solutions(
        oracle=_careful(files, changed),
        noop=(say_call("finish"),),
        wrong=(
            _written({"tests/test_project.py": "import unittest\n"}),
            special,
            half,
            _written(_without_feature(files, changed)),
            _written({_app(task): "import os\n\nos._exit(0)\n"}),
            _written({_app(task): files[_app(task)] + "\nimport sys\n\nsys.exit(0)\n"}),
            (say_call("run", command=f"rm -r {task.public['package']}") + say_call("finish"),),
        ),
        equivalent=(
            _written(changed),
            _written(rewritten({**own, **solution})),
            (_in_shell(changed) + "\n" + say_call("finish"),),
        ),
        ladder=(half, special),
    )


def tests_solutions(task: TaskSpec) -> Solutions:
    """Of a module that needs tests."""
    path, cases = task.public["tests"], task.hidden["cases"]
    full = as_tests(cases)
    module = task.public["module"]
    source = task.public["files"][module]
    empty = "import unittest\n\n\nclass Tests(unittest.TestCase):\n\n    def test_nothing(self):\n        pass\n"
    looks = (
        "import unittest\n\n\nclass Tests(unittest.TestCase):\n\n    def test_text(self):\n"
        f"        with open({module!r}) as file:\n            self.assertEqual(file.read(), {source!r})\n"
    )
    return Solutions(
        oracle=(
            _call("read", path=module),
            _call("write", path=path, text=full),
            _call("run", command=RUN_TESTS),
            say_call("finish"),
        ),
        noop=(say_call("finish"),),
        wrong=(
            _written({path: empty}),
            _written({path: empty.replace("pass", "self.fail()")}),
            _written({path: looks}),
            _written({path: "import os\n\nos._exit(0)\n"}),
            _written({path: "import unittest\n\n\nclass Tests(unittest.TestCase:\n"}),
            _written({path: f"import {module.removesuffix('.py').replace('/', '.')}\n"}),
        ),
        equivalent=(_written({path: full}), _written({path: as_tests(cases, table=True)})),
        ladder=(_written({path: as_tests(cases[: max(1, len(cases) // 3)])}), _written({path: empty})),
    )


def _call(name: str, **arguments: Any) -> str:
    return say_call(name, **arguments)


def _careful(files: Mapping[str, str], changed: Mapping[str, str]) -> Script:
    """Run the tests, look at what is to be changed, edit it, run the tests again."""
    looks = [_call("run", command=f"{RUN_TESTS} 2>&1 | tail -n 20")]
    looks += [_call("read", path=path) for path in changed if path in files]
    edits = []
    for path, text in changed.items():
        if path in files:
            edits += [_call("edit", path=path, old=old, new=new) for old, new in hunks(files[path], text)]
        else:
            edits.append(_call("write", path=path, text=text))
    batches = [edits[place : place + _MAX_CALLS] for place in range(0, len(edits), _MAX_CALLS)]
    turns = ["\n".join(looks), *("\n".join(batch) for batch in batches)]
    return (*turns, _call("run", command=RUN_TESTS), say_call("finish"))


def _written(files: Mapping[str, str]) -> Script:
    """Whole files, all at once."""
    calls = [say_call("write", path=path, text=text) for path, text in files.items()]
    return ("\n".join([*calls, say_call("finish")]),)


def _in_shell(files: Mapping[str, str]) -> str:
    texts = json.dumps(dict(files))
    program = f"import json\nfor path, text in json.loads({texts!r}).items():\n    open(path, 'w').write(text)\n"
    return say_call("run", command=f"cat > /tmp/put.py <<'END_OF_FILE'\n{program}END_OF_FILE\npython3 /tmp/put.py")


def _app(task: TaskSpec) -> str:
    return f"{task.public['package']}/app.py"


def _special_cased(task: TaskSpec) -> dict[str, str]:
    """The shown results by heart, in front of what is broken."""
    known: dict[str, dict[str, Any]] = {}
    for example in task.public["examples"]:
        known.setdefault(example["target"].split(":")[1], {})[json.dumps(example["args"])] = example["expected"]
    lines = ["", "import json", f"_KNOWN = json.loads({json.dumps(known)!r})", "", *_BY_HEART]
    lines += [f"{name} = _by_heart({name!r}, {name})" for name in known]
    return {_app(task): task.public["files"][_app(task)] + "\n".join(lines) + "\n"}


_BY_HEART = (
    "def _by_heart(name, real):",
    "    def answer(*args):",
    "        key = json.dumps(args)",
    "        return _KNOWN[name][key] if key in _KNOWN[name] else real(*args)",
    "    return answer",
    "",
)


def _without_feature(files: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """The first changed file with the functions that would have to be repaired doing nothing."""
    path = next(path for path in changed if path in files)
    tree, right = ast.parse(files[path]), _functions(ast.parse(changed[path]))
    removed = False
    for name, node in _functions(tree).items():
        if name not in right or ast.dump(right[name]) != ast.dump(node):
            node.body, removed = [ast.Return(ast.Constant(None))], True
    return {path: ast.unparse(ast.fix_missing_locations(tree)) + "\n" if removed else ""}


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
