"""Projects about small languages: an evaluator of expressions, a template renderer, a state machine."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

_CALC = Kind(
    id="calculator",
    summary="Evaluates expressions: tokens, a parser, an evaluator.",
    library="tokens",
    features={
        "power": ("right", "left", "none"),
        "division": ("floor", "toward_zero"),
        "names": (True, False),
        "comparison": (True, False),
    },
    constants={
        "pkg": ("calc", "formula", "arith", "compute"),
        "Parser": ("Parser", "Reader", "Builder"),
        "tokens": ("tokens", "scan", "tokenize"),
        "extra": ("min", "max"),
        "remainder": ("%", "@"),
        "depth": (4, 5),
    },
    modules={
        "tokens": '''
"""Text to tokens: pairs of kind and text."""


class BadText(Exception):
    pass


def run_length(text, start, allowed):
    """How many characters from `start` on are allowed."""
    end = start
    while end < len(text) and allowed(text[end]):
        end += 1
    return end - start


def $tokens(text, operators='+-*/()'):
    """The tokens in turn; the last one is ('end', '')."""
    place = 0
    while place < len(text):
        letter = text[place]
        if letter == ' ':
            place += 1
            continue
        if letter.isdigit():
            length = run_length(text, place, str.isdigit)
            kind = 'number'
        elif letter.isalpha():
            length = run_length(text, place, str.isalpha)
            kind = 'name'
        elif letter in operators:
            length = 1
            kind = 'operator'
        else:
            raise BadText(f'bad character at {place}')
        yield (kind, text[place:place + length])
        place += length
    yield ('end', '')


def closing(opening, pairs='()'):
    """The bracket that closes another, empty for none."""
    place = pairs.find(opening)
    if place < 0 or place % 2 == 1:
        return ''
    return pairs[place + 1]
''',
        "parser": '''
"""Tokens to a tree: nested lists of an operator and its operands."""
from $lib.tokens import BadText, $tokens, closing

OPERATORS = '+-*/()$remainder,^<'


class $Parser:

    def __init__(self, text, limit=$depth):
        self.waiting = list($tokens(text, OPERATORS))
        self.place = 0
        self.limit = limit

    def peek(self):
        return self.waiting[self.place][1]

    def advance(self):
        token = self.waiting[self.place]
        if token[0] == 'end':
            raise BadText('unexpected end')
        self.place += 1
        return token

    def whole(self):
        tree = self.lowest(0)
        if self.waiting[self.place][0] != 'end':
            raise BadText(f'unexpected {self.peek()}')
        return tree

    def lowest(self, depth):
        tree = self.sums(depth)
        if self.peek() == '<':                                      #? comparison
            self.advance()                                          #? comparison
            tree = ['<', tree, self.sums(depth)]                    #? comparison
        return tree

    def sums(self, depth):
        tree = self.products(depth)
        while self.peek() in ('+', '-'):
            operator = self.advance()[1]
            tree = [operator, tree, self.products(depth)]
        return tree

    def products(self, depth):
        tree = self.signed(depth)
        while self.peek() in ('*', '/', '$remainder'):
            operator = self.advance()[1]
            tree = [operator, tree, self.signed(depth)]
        return tree

    def signed(self, depth):
        if self.peek() == '-':
            self.advance()
            return ['negative', self.signed(depth)]
        return self.powers(depth)

    def powers(self, depth):
        tree = self.atom(depth)
        if self.peek() == '^':                                      #? power=right
            self.advance()                                          #? power=right
            return ['^', tree, self.signed(depth)]                  #? power=right
        while self.peek() == '^':                                   #? power=left
            self.advance()                                          #? power=left
            tree = ['^', tree, self.atom(depth)]                    #? power=left
        return tree

    def atom(self, depth):
        kind, text = self.advance()
        if kind == 'number':
            return int(text)
        if kind == 'name' and self.peek() == '(':
            self.advance()
            return ['call', text, self.arguments(depth + 1)]
        if kind == 'name':                                          #? names
            return ['name', text]                                   #? names
        if text == '(':
            if depth >= self.limit:
                raise BadText('too deep')
            tree = self.lowest(depth + 1)
            if self.advance()[1] != closing(text):
                raise BadText('bracket not closed')
            return tree
        raise BadText(f'unexpected {text}')

    def arguments(self, depth):
        found = [self.lowest(depth)]
        while self.peek() == ',':
            self.advance()
            found.append(self.lowest(depth))
        if self.advance()[1] != ')':
            raise BadText('bracket not closed')
        return found
''',
        "functions": '''
"""What can be called, and the arithmetic."""


class BadValue(Exception):
    pass


def divide(left, right):
    if right == 0:
        raise BadValue('division by zero')
    return left // right                                            #? division=floor
    quotient = abs(left) // abs(right)                              #? division=toward_zero
    return quotient if (left < 0) == (right < 0) else -quotient     #? division=toward_zero


def remainder(left, right):
    """What division leaves over."""
    return left - divide(left, right) * right


def power(base, exponent):
    if exponent < 0 or exponent > 64:
        raise BadValue('bad exponent')
    return base ** exponent


def mean(values):
    return divide(sum(values), len(values))


def span(values):
    return max(values) - min(values)


FUNCTIONS = {'mean': mean, 'span': span, '$extra': $extra}
''',
        "evaluate": '''
"""Trees to values."""
from $pkg.functions import BadValue, FUNCTIONS, divide, power, remainder


def value_of(tree, names):
    """The whole number a tree stands for."""
    if isinstance(tree, int):
        return tree
    kind = tree[0]
    if kind == 'name':                                              #? names
        if tree[1] not in names:                                    #? names
            raise BadValue(f'unknown name {tree[1]}')               #? names
        return names[tree[1]]                                       #? names
    if kind == 'call':
        if tree[1] not in FUNCTIONS:
            raise BadValue(f'unknown function {tree[1]}')
        return FUNCTIONS[tree[1]]([value_of(each, names) for each in tree[2]])
    if kind == 'negative':
        return -value_of(tree[1], names)
    left = value_of(tree[1], names)
    right = value_of(tree[2], names)
    return binary(kind, left, right)


def binary(operator, left, right):
    if operator == '+':
        return left + right
    if operator == '-':
        return left - right
    if operator == '*':
        return left * right
    if operator == '/':
        return divide(left, right)
    if operator == '^':                                             #? !power=none
        return power(left, right)                                   #? !power=none
    if operator == '<':                                             #? comparison
        return 1 if left < right else 0                             #? comparison
    return remainder(left, right)
''',
        "app": '''
"""Evaluation of text."""
from $pkg.evaluate import value_of
from $pkg.functions import BadValue
from $pkg.parser import $Parser
from $lib.tokens import BadText


def evaluate(text, names=None):
    """The value of an expression, or what is wrong with it."""
    if names is None:
        names = {}
    try:
        return value_of($Parser(text).whole(), names)
    except BadText as error:
        return f'syntax: {error}'
    except BadValue as error:
        return f'value: {error}'


def tree(text):
    """The tree of an expression, or what is wrong with it."""
    try:
        return $Parser(text).whole()
    except BadText as error:
        return f'syntax: {error}'
''',
    },
    spec="""
- Expressions are whole numbers with `+ - * / $remainder`, brackets, a sign in front, calls; usual precedence, from left to right.
- `^` is a power and binds closest, from right to left; what follows it may have a sign.     #? power=right
- `^` is a power and binds closest, from left to right.                                      #? power=left
- `^` stands nowhere: it is an `unexpected ^`.                                               #? power=none
- Exponents lie in 0..64, else `value: bad exponent`.                                        #? !power=none
- `a < b`, which binds loosest and stands at most once in a pair of brackets, is 1 if it holds, else 0.     #? comparison
- Names in letters stand for the given values, else `value: unknown name x`.                 #? names
- A name that is not called is a syntax error: `unexpected x`.                               #? !names
- `/` divides and rounds down; `$remainder` is what it leaves over, so `a = (a / b) * b + a $remainder b`.           #? division=floor
- `/` divides and drops the fraction; `$remainder` is what it leaves over, so `a = (a / b) * b + a $remainder b`.    #? division=toward_zero
- Dividing by 0 is `value: division by zero`.
- Functions of one or more values: `mean` (divided as `/` does), `span` (largest less smallest), `$extra`; else `value: unknown function x`.
- At most $depth brackets or calls may be open when a bracket opens, else `syntax: too deep`; the limit is $depth.
- Syntax errors: `unexpected x`, `unexpected end`, `bracket not closed`, `bad character at 3` (counted from 0).
- `tree(text)` gives nested lists such as `["+", 1, ["negative", 2]]`, `["call", "mean", [1, 2]]`.
""",  # noqa: E501
    cases=lambda rng, v: _calc_case(rng, v),
)


def _calc_case(rng: Random, v: Values) -> Case:
    text = _expression(rng, v, rng.choice([1, 2, 2, 3]))
    if rng.random() < 0.15:
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(["(", ")", "?", " 7", "+", "abc", ","]) + text[place + 1 :]
    if rng.random() < 0.08:
        depth = v["depth"] + rng.choice([-1, 0, 1])
        text = "(" * depth + "3-1" + ")" * depth
    if rng.random() < 0.2:
        return f"{v['pkg']}.app:tree", [text]
    return f"{v['pkg']}.app:evaluate", [text, {"a": rng.randint(-9, 9), "bc": 12}] if rng.random() < 0.7 else [text]


def _expression(rng: Random, v: Values, depth: int) -> str:
    if depth == 0:
        return rng.choice([str(rng.randint(0, 12)), str(rng.randint(0, 12)), "a" if v["names"] else "5", "17"])
    left, right = _expression(rng, v, depth - 1), _expression(rng, v, depth - 1)
    roll = rng.random()
    if roll < 0.12:
        return f"{rng.choice(['mean', 'span', v['extra']])}({left}, {right}, 3)"
    if roll < 0.2:
        return f"-({left})" if depth > 1 else f"-{left}"
    if roll < 0.34 and v["power"] != "none":
        return rng.choice([f"{rng.randint(0, 3)}^{rng.randint(0, 3)}^2", f"-2^{rng.randint(1, 4)}"])
    if roll < 0.42 and v["comparison"]:
        return f"({left} < {right})"
    operator = rng.choice(["+", "-", "-", "*", "/", v["remainder"]])
    return f"({left}) {operator} {right}" if rng.random() < 0.3 else f"{left}{operator}{right}"


_TEMPLATE = Kind(
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


_MACHINE = Kind(
    id="state_machine",
    summary="State machines from a table of rules, with guards, undo and a log.",
    library="rules",
    features={
        "unknown": ("stay", "fail"),
        "undo": (True, False),
        "wildcard": (True, False),
        "limit": (True, False),
    },
    constants={
        "pkg": ("flow", "machine", "states", "orders"),
        "Machine": ("Machine", "Automaton", "Workflow"),
        "arrow": ("->", "=>"),
        "fire": ("fire", "send", "feed"),
        "most": (2, 3),
        "depth": (2, 3, 4),
        "star": ("*", "any"),
    },
    modules={
        "rules": '''
"""Lines of rules to records."""


class BadRule(Exception):
    pass


class Rule:

    def __init__(self, source, event, target, least=0):
        self.source = source
        self.event = event
        self.target = target
        self.least = least


def parts_of(line, mark):
    """Both sides of a mark, without spaces around them."""
    left, found, right = line.partition(mark)
    if not found:
        raise BadRule(line.strip())
    return (left.strip(), right.strip())


def read_rule(line, arrow='$arrow'):
    """A rule like `idle start $arrow running if 3`."""
    left, right = parts_of(line, arrow)
    words = left.split()
    if len(words) != 2:
        raise BadRule(line.strip())
    target, mark, least = right.partition(' if ')
    return Rule(words[0], words[1], target.strip(), int(least) if mark else 0)


def read_rules(text):
    """All rules of a text, one a line; empty lines do not count."""
    for line in text.split('\\n'):
        if line.strip():
            yield read_rule(line)
''',
        "table": '''
"""Which rule applies."""


class Table:

    def __init__(self, rules):
        self.rules = list(rules)
        self._cached_states = None

    def states(self):
        """All states by name, in order."""
        if self._cached_states is None:
            found = {}
            for rule in self.rules:
                if rule.source != '$star':                          #? wildcard
                    found[rule.source] = True                       #? wildcard
                found[rule.source] = True                           #? !wildcard
                found[rule.target] = True
            self._cached_states = sorted(found)
        return self._cached_states

    def add(self, rule):
        self.rules.append(rule)
        self._cached_states = None

    def match(self, state, event, amount):
        """The first rule for a state, an event and an amount; None when there is none."""
        for rule in self.rules:
            if rule.event != event or amount < rule.least:
                continue
            if rule.source == state:
                return rule
        for rule in self.rules:                                                         #? wildcard
            if rule.source == '$star' and rule.event == event and (amount >= rule.least):   #? wildcard
                return rule                                                             #? wildcard
        return None
''',
        "history": '''
"""What has happened."""


class History:

    def __init__(self, depth=$depth, steps=None):
        if steps is None:
            steps = []
        self.depth = depth
        self.steps = steps
        self.visits = {}

    def record(self, source, target):
        """Remember a step; the oldest are forgotten beyond the depth."""
        self.steps.append(source)
        if len(self.steps) > self.depth:
            self.steps = self.steps[-self.depth:]
        self.visits[target] = self.visits.get(target, 0) + 1

    def back(self):
        """The state before the last step, None when no step is known."""
        if not self.steps:
            return None
        return self.steps.pop()

    def most_visited(self):
        """The state entered most often, the first by name among equals."""
        if not self.visits:
            return None
        return min(self.visits, key=lambda state: (-self.visits[state], state))
''',
        "machine": '''
"""A machine in a state."""
from $pkg.history import History
from $lib.rules import read_rule, read_rules
from $pkg.table import Table


class Stuck(Exception):
    pass


class $Machine:

    def __init__(self, text, start):
        self.table = Table(read_rules(text))
        self.state = start
        self.history = History()

    def extend(self, line):
        self.table.add(read_rule(line))
        return self.table.states()

    def $fire(self, event, amount=0):
        """Go to the next state and return it."""
        rule = self.table.match(self.state, event, amount)
        if rule is None:
            raise Stuck(f'{event} in {self.state}')                                     #? unknown=fail
            return self.state                                                           #? unknown=stay
        if self.history.visits.get(rule.target, 0) >= $most and rule.target != self.state:  #? limit
            raise Stuck(f'{rule.target} is full')                                       #? limit
        self.history.record(self.state, rule.target)
        self.state = rule.target
        return self.state

    def undo(self):                                                                     #? undo
        """Return to the state before the last step."""                                 #? undo
        before = self.history.back()                                                    #? undo
        if before is not None:                                                          #? undo
            self.state = before                                                         #? undo
        return self.state                                                               #? undo
''',
        "app": '''
"""Machines as one function."""
from $pkg.machine import $Machine, Stuck
from $lib.rules import BadRule


def perform(machine, event):
    if event[0] == 'states':
        return machine.table.states()
    if event[0] == 'rule':
        return machine.extend(event[1])
    if event[0] == 'favourite':
        return machine.history.most_visited()
    if event[0] == 'undo':                                          #? undo
        return machine.undo()                                       #? undo
    return machine.$fire(*event)


def run(rules, start, events):
    """Results of events in turn, or the rule that is bad."""
    try:
        machine = $Machine(rules, start)
    except BadRule as error:
        return f'bad rule: {error}'
    results = []
    for event in events:
        try:
            results.append(perform(machine, event))
        except Stuck as error:
            results.append(f'stuck: {error}')
        except BadRule as error:
            results.append(f'bad rule: {error}')
    return results
''',
    },
    spec="""
- `run(rules, start, events)`: a rule is a line `state event $arrow target`, with ` if 3` at its end for amounts of 3 and more only. Empty lines do not count; without the arrow, or without two words before it, it is a bad rule.
- An event is a name and an amount (0 if left out); the first rule that fits the state, the event and the amount applies.
- A rule for the state `$star` fits every state, when no rule for the state itself fits; `$star` is no state.     #? wildcard
- An event without a rule leaves the state.                                           #? unknown=stay
- An event without a rule is `stuck: event in state`, and leaves the state.           #? unknown=fail
- A state can be entered $most times; then it is `stuck: state is full`, unless the machine is in it already.     #? limit
- `undo` returns to the state before the last step and gives it; the last $depth steps can be undone, undoing is no step and does not count as entering.     #? undo
- `states` lists all states in order, `rule` adds a rule and lists them, `favourite` is the state entered most often, the first by name among equals, null before the first step.
""",  # noqa: E501
    cases=lambda rng, v: _machine_case(rng, v),
)


def _machine_case(rng: Random, v: Values) -> Case:
    states, names, arrow = ["idle", "busy", "done", "held"], ["go", "stop", "hold"], v["arrow"]
    lines = []
    for _ in range(rng.randint(3, 7)):
        source = v["star"] if v["wildcard"] and rng.random() < 0.25 else rng.choice(states)
        least = rng.choice(["", "", " if 2", " if 5"])
        lines.append(f"{source} {rng.choice(names)} {arrow} {rng.choice(states)}{least}")
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "  "]))
    if rng.random() < 0.06:
        lines.append(rng.choice(["idle go busy", f"idle {arrow} busy"]))
    events: list[list[Any]] = []
    for _ in range(rng.randint(4, 9)):
        roll = rng.random()
        if roll < 0.15:
            events.append(["undo"] if v["undo"] else ["states"])
        elif roll < 0.3:
            events.append(rng.choice([["favourite"], ["states"], ["rule", f"held go {arrow} zone"], ["rule", "x"]]))
        else:
            events.append([rng.choice(names), rng.choice([0, 1, 2, 5])] if rng.random() < 0.6 else [rng.choice(names)])
    return f"{v['pkg']}.app:run", ["\n".join(lines), "idle", [*events, ["favourite"], ["states"]]]


KINDS = (_CALC, _TEMPLATE, _MACHINE)
