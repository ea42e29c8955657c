"""Expressions: tokens, a parser, an evaluator. One kind of project; see `_project_kind`."""

from random import Random

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
