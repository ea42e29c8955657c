"""Templates: pieces, a tree of nodes, filters, text. One kind of project; see `_project_kind`."""

from random import Random

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
    id="template",
    summary="Renders templates with values, filters, loops and conditions.",
    library="filters",
    features={
        "missing": ("empty", "error"),
        "otherwise": (True, False),
        "counter": ("from_1", "from_0", "none"),
        "escape": (True, False),
    },
    constants={
        "pkg": ("render", "stencil", "letters", "views"),
        "opening": ("{{", "<<", "[["),
        "Scanner": ("Scanner", "Lexer", "Cutter"),
        "shout": ("upper", "loud", "caps"),
        "cut": (4, 5, 6),
        "joint": (", ", "; ", " / "),
        "pad": ("0", "*", "_"),
    },
    modules={
        "filters": '''
"""Filters: text to text."""


def $shout(text):
    return text.upper()


def cut(text, length=$cut):
    """The text, shortened to a length with two dots at its end."""
    if len(text) <= length:
        return text
    return text[:length - 2] + '..'


def joined(items, joint='$joint'):
    """Items as one text."""
    return joint.join([str(item) for item in items])


def padded(text, length):
    """The text filled up on the left."""
    return '$pad' * (length - len(text)) + text
''',
        "scanner": '''
"""Text to pieces: pairs of kind and text."""

MARKS = {'{{': '}}', '<<': '>>', '[[': ']]'}


class BadTemplate(Exception):
    pass


class $Scanner:

    def __init__(self, text, opening='$opening'):
        self.text = text
        self.opening = opening
        self.closing = MARKS[opening]

    def pieces(self):
        """Pieces of kind text, value or command, in turn."""
        place = 0
        while place < len(self.text):
            start = self.text.find(self.opening, place)
            if start < 0:
                yield ('text', self.text[place:])
                return
            if start > place:
                yield ('text', self.text[place:start])
            end = self.text.find(self.closing, start)
            if end < 0:
                raise BadTemplate('mark not closed')
            inside = self.text[start + 2:end].strip()
            if inside[:1] == '#':
                yield ('command', inside[1:].strip())
            else:
                yield ('value', inside)
            place = end + 2
''',
        "tree": '''
"""Pieces to a tree: lists of nodes."""
from $pkg.scanner import BadTemplate, $Scanner


def parse(text):
    pieces = list($Scanner(text).pieces())
    nodes, place, ended = block(pieces, 0)
    if ended:
        raise BadTemplate(f'unexpected {ended}')
    return nodes


def block(pieces, place):
    """Nodes up to the command that ends the block, the place after it, and that command."""
    nodes = []
    while place < len(pieces):
        kind, text = pieces[place]
        place += 1
        if kind != 'command':
            nodes.append([kind, text])
            continue
        words = text.split()
        if words[:1] == ['end'] or words[:1] == ['else']:
            return (nodes, place, words[0])
        inner, place, ended = block(pieces, place)
        other = []
        if ended == 'else' and words[:1] == ['if']:                 #? otherwise
            other, place, ended = block(pieces, place)              #? otherwise
        if ended != 'end':
            raise BadTemplate(f'{words[0]} not ended')
        if words[0] == 'for' and len(words) == 3:
            nodes.append(['for', words[1], words[2], inner])
        elif words[0] == 'if' and len(words) == 2:
            nodes.append(['if', words[1], inner, other])
        else:
            raise BadTemplate(f'bad command {words[0]}')
    return (nodes, place, '')
''',
        "writer": '''
"""Nodes to text."""
from $lib.filters import cut, joined, padded, $shout
from $pkg.scanner import BadTemplate


def looked_up(path, values):
    """The value at a dotted path, None where there is none."""
    found = values
    for name in path.split('.'):
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def filtered(text, name):
    if name == '$shout':
        return $shout(text)
    if name == 'cut':
        return cut(text)
    if name.startswith('pad'):
        return padded(text, int(name[3:]))
    raise BadTemplate(f'unknown filter {name}')


def safe(text):
    """Text without special characters."""
    return text.replace('&', '&amp;').replace('<', '&lt;')


def shown(expression, values):
    """The value of an expression like `name | filter` as text."""
    parts = [part.strip() for part in expression.split('|')]
    value = looked_up(parts[0], values)
    if value is None:
        raise BadTemplate(f'no value for {parts[0]}')               #? missing=error
        return ''                                                   #? missing=empty
    text = joined(value) if isinstance(value, list) else str(value)
    for name in parts[1:]:
        text = filtered(text, name)
    return safe(text)                                               #? escape
    return text                                                     #? !escape


def written(nodes, values):
    """The text of all nodes."""
    text = ''
    for node in nodes:
        if node[0] == 'text':
            text += node[1]
        elif node[0] == 'value':
            text += shown(node[1], values)
        elif node[0] == 'if':
            chosen = node[2] if looked_up(node[1], values) else node[3]
            text += written(chosen, values)
        else:
            items = looked_up(node[2], values) or []
            for place, item in enumerate(items):
                inner = dict(values)
                inner[node[1]] = item
                inner['count'] = place + 1                          #? counter=from_1
                inner['count'] = place                              #? counter=from_0
                text += written(node[3], inner)
    return text
''',
        "app": '''
"""Rendering as one function."""
from $pkg.scanner import BadTemplate
from $pkg.tree import parse
from $pkg.writer import written


def render(text, values=None):
    """The text of a template, or what is wrong with it."""
    if values is None:
        values = {}
    try:
        return written(parse(text), values)
    except BadTemplate as error:
        return f'error: {error}'


def nodes(text):
    """The tree of a template, or what is wrong with it."""
    try:
        return parse(text)
    except BadTemplate as error:
        return f'error: {error}'
''',
    },
    spec="""
- Marks open with `$opening` and close with its mirror image; a mark that is not closed is `error: mark not closed`.
- In a mark stands a value: a dotted path, then filters after `|`. Lists are joined by `$joint`.
- A value that is missing is written as nothing, whatever its filters.                         #? missing=empty
- A value that is missing is an error: `error: no value for path`.                             #? missing=error
- Filters: `$shout` (capitals), `cut` (more than $cut characters are shortened to $cut, the last two being dots), `pad6` (filled up to 6 characters on the left with `$pad`); else `error: unknown filter x`.
- After the filters, `&` becomes `&amp;` and `<` becomes `&lt;`; text outside of marks stays.      #? escape
- Values are written as they are.                                                              #? !escape
- A mark that begins with `#` is a command: `# for x in_path` and `# if path`, each up to `# end`.
- Between `if` and `end` there may be an `# else`.                                             #? otherwise
- There is no `else`: an `if` that comes to one is `error: if not ended`.                      #? !otherwise
- In a loop, `count` is the number of the round, the first is 1.                               #? counter=from_1
- In a loop, `count` is the number of the round, the first is 0.                               #? counter=from_0
- Other errors: `unexpected end`, `for not ended`, `bad command x`.
- `nodes(text)` gives the tree: `["text", t]`, `["value", v]`, `["if", path, nodes, else_nodes]`, `["for", name, path, nodes]`.
""",  # noqa: E501
    cases=lambda rng, v: _template_case(rng, v),
)


def _template_case(rng: Random, v: Values) -> Case:
    text = _template(rng, v, 2)
    if rng.random() < 0.08:
        text += rng.choice([v["opening"] + " oops", _mark(v, "# end"), _mark(v, "# else"), _mark(v, "# while x")])
    if rng.random() < 0.15:
        return f"{v['pkg']}.app:nodes", [text]
    people = [{"name": name} for name in rng.sample(["Ada", "Benedikt", "Cleo & Co", "D<4"], rng.randint(0, 3))]
    values = {
        "user": {"name": rng.choice(["Eve", "Ferdinand", "G&H"]), "age": rng.randint(1, 99)},
        "people": people,
        "tags": rng.choice([[], ["x"], ["x", "yy"]]),
        "open": rng.choice([True, False]),
    }
    return f"{v['pkg']}.app:render", [text, values]


def _mark(v: Values, inside: str) -> str:
    closing = {"{{": "}}", "<<": ">>", "[[": "]]"}[v["opening"]]
    return f"{v['opening']} {inside} {closing}"


def _template(rng: Random, v: Values, depth: int) -> str:
    parts = []
    for _ in range(rng.randint(1, 3)):
        roll = rng.random()
        if roll < 0.2:
            parts.append(rng.choice(["Hi ", "a & b", ", ", " <b> "]))
        elif roll < 0.6 or depth == 0:
            path = rng.choice(["user.name", "user.name", "user.age", "tags", "p.name", "nobody", "count", "user.x"])
            used = rng.choice(["", f" | {v['shout']}", " | cut", " | pad5", f" | cut | {v['shout']}", " | none"])
            parts.append(_mark(v, path + used))
        elif roll < 0.8:
            middle = _mark(v, "# else") + "no" if v["otherwise"] and rng.random() < 0.6 else ""
            inner = _template(rng, v, depth - 1) + middle
            parts.append(_mark(v, f"# if {rng.choice(['open', 'people', 'nobody'])}") + inner + _mark(v, "# end"))
        else:
            inner = _mark(v, "p.name") + rng.choice(["", _mark(v, "count")]) + _template(rng, v, depth - 1)
            parts.append(_mark(v, "# for p people") + inner + _mark(v, "# end"))
    return "".join(parts)
