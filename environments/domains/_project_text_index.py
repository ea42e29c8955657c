"""Searching texts: words, an index, queries, ranking, excerpts. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
    id="text_index",
    summary="Searches texts: words, an index, queries, ranking, excerpts.",
    library="words",
    features={
        "case": ("ignored", "kept"),
        "rank": ("count", "share", "first"),
        "prefix": (True, False),
        "exclude": (True, False),
    },
    constants={
        "pkg": ("index", "finder", "library", "archive"),
        "Index": ("Index", "Catalogue", "Register"),
        "words": ("words", "terms", "split_words"),
        "least": (2, 3),
        "around": (6, 8, 10),
        "most": (3, 4),
        "star": ("*", "~"),
        "minus": ("-", "!"),
    },
    modules={
        "words": '''
"""Words of a text."""


def $words(text, least=1):
    """The words of a text in turn, which have at least so many letters."""
    word = ''
    for letter in text + ' ':
        if letter.isalnum():
            word += letter
            continue
        if len(word) >= least:
            yield word.lower()                                      #? case=ignored
            yield word                                              #? case=kept
        word = ''


def counted(items):
    """How often each item is there."""
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts


def clipped(text, start, length, dots='..'):
    """A part of a text with dots where something is left out."""
    start = max(0, start)
    end = start + length
    head = dots if start > 0 else ''
    tail = dots if end < len(text) else ''
    return head + text[start:end] + tail
''',
        "store": '''
"""Which text has which words."""
from $lib.words import counted, $words


class UnknownText(Exception):
    pass


class $Index:

    def __init__(self, texts=None):
        if texts is None:
            texts = {}
        self.texts = texts
        self.places = {}
        self._cached_size = None

    def add(self, name, text):
        """Put a text in, in place of the one with its name, and return how many different words it has."""
        if name in self.texts:
            self.remove(name)
        self.texts[name] = text
        counts = counted($words(text, $least))
        for word, count in counts.items():
            self.places.setdefault(word, {})[name] = count
        self._cached_size = None
        return len(counts)

    def remove(self, name):
        if name not in self.texts:
            raise UnknownText(name)
        self.texts.pop(name)
        for found in self.places.values():
            found.pop(name, None)
        self.places = {word: found for word, found in self.places.items() if found}
        self._cached_size = None

    def size(self):
        """How many different words there are."""
        if self._cached_size is None:
            self._cached_size = len(self.places)
        return self._cached_size

    def having(self, word):
        """Texts with a word, and how often."""
        return self.places.get(word, {})

    def beginning(self, start):                                     #? prefix
        """Texts with words that begin so, and how often."""        #? prefix
        found = {}                                                  #? prefix
        for word, places in self.places.items():                    #? prefix
            if word.startswith(start):                              #? prefix
                for name, count in places.items():                  #? prefix
                    found[name] = found.get(name, 0) + count        #? prefix
        return found                                                #? prefix
''',
        "query": '''
"""Queries."""
from $lib.words import $words


class BadQuery(Exception):
    pass


def parse(text):
    """Pairs of kind (must, not, begins) and word."""
    parts = []
    for piece in text.split():
        kind = 'must'
        if piece[0] == '$minus':                                    #? exclude
            kind = 'not'                                            #? exclude
        elif piece[-1] == '$star':                                  #? exclude&prefix
            kind = 'begins'                                         #? exclude&prefix
        if piece[-1] == '$star':                                    #? !exclude&prefix
            kind = 'begins'                                         #? !exclude&prefix
        found = list($words(piece))
        if len(found) != 1:
            raise BadQuery(piece)
        parts.append((kind, found[0]))
    if all((kind == 'not' for kind, _ in parts)):
        raise BadQuery('nothing to look for')
    return parts


def matches(index, parts):
    """Texts that fit all parts, and how often the words that were looked for are there."""
    scores = None
    unwanted = {}
    for kind, word in parts:
        if kind == 'not':
            unwanted.update(index.having(word))
            continue
        found = index.having(word)                                  #? !prefix
        found = index.beginning(word) if kind == 'begins' else index.having(word)   #? prefix
        if scores is None:
            scores = dict(found)
        else:
            scores = {name: scores[name] + found[name] for name in scores if name in found}
    return {name: score for name, score in scores.items() if name not in unwanted}
''',
        "ranking": '''
"""The order of results, and excerpts."""
from $lib.words import clipped, $words


def rank(index, name, score):
    """Texts with the lowest rank come first."""
    return (-score, name)                                           #? rank=count
    return (-(score * 1000 // len(list($words(index.texts[name])))), name)      #? rank=share
    return name                                                     #? rank=first


def ordered(index, scores, most=$most):
    ranked = sorted(scores, key=lambda name: rank(index, name, scores[name]))
    return ranked[:most]


def excerpt(text, word, around=$around):
    """The surroundings of the first place where a word stands."""
    place = text.lower().find(word.lower())
    if place < 0:
        return clipped(text, 0, around * 2)
    return clipped(text, place - around, around * 2 + len(word))
''',
        "app": '''
"""Searching as one function."""
from $pkg.query import BadQuery, matches, parse
from $pkg.ranking import excerpt, ordered
from $pkg.store import $Index, UnknownText


def found(index, query):
    """Names and excerpts of what fits a query, the best first."""
    parts = parse(query)
    first = [word for kind, word in parts if kind != 'not'][0]
    names = ordered(index, matches(index, parts))
    return [[name, excerpt(index.texts[name], first)] for name in names]


def perform(index, event):
    if event[0] == 'add':
        return index.add(event[1], event[2])
    if event[0] == 'remove':
        return index.remove(event[1])
    if event[0] == 'find':
        return found(index, event[1])
    return index.size()


def run(events):
    """Results of events in turn."""
    index = $Index()
    results = []
    for event in events:
        try:
            results.append(perform(index, event))
        except UnknownText as error:
            results.append(f'unknown text: {error}')
        except BadQuery as error:
            results.append(f'bad query: {error}')
    return results
''',
    },
    spec="""
- `run(events)`: `add` puts a text in, in place of the one with that name, and gives how many different words it has; `remove` takes it out and gives null, or is `unknown text: name`; `size` is the number of different words in all texts.
- Words are runs of letters and digits; those with fewer than $least characters are not indexed. Capital letters make no difference.     #? case=ignored
- Words are runs of letters and digits; those with fewer than $least characters are not indexed. Capital letters make a difference.      #? case=kept
- `find` gives pairs of name and excerpt of the texts that have all words of the query, at most $most.
- A word that ends in `$star` fits all words that begin so (if it is not excluded).               #? prefix
- Texts with a word behind `$minus` are left out.                                                  #? exclude
- A part of a query that is not exactly one word is `bad query: PART`; a query without a word that is wanted is `bad query: nothing to look for`.
- Texts where the wanted words stand most often come first, by name among equals.                  #? rank=count
- Texts where the wanted words are the largest share of all words (in thousandths, rounded down; short words count too) come first, by name among equals.     #? rank=share
- Texts come in the order of their names.                                                          #? rank=first
- An excerpt is the first place where the first wanted word stands, capital or not, with $around characters before it (fewer at the start of the text, then more after it) and $around after it, and `..` where something is left out.
""",  # noqa: E501
    cases=lambda rng, v: _index_case(rng, v),
)


def _index_case(rng: Random, v: Values) -> Case:
    vocabulary = ["sun", "sunny", "Sun", "rain", "Rainy", "of", "a", "wind", "snow", "sunset", "I"]
    names = ["alpha", "beta", "gamma", "delta", "eta"]
    events: list[list[Any]] = []
    for name in rng.sample(names, rng.randint(2, 5)):
        chosen = rng.choices(vocabulary, k=rng.randint(2, 9))
        events.append(["add", name, rng.choice([" ", ", ", "-"]).join(chosen) + rng.choice(["", ".", "!"])])
    for _ in range(rng.randint(2, 5)):
        parts = rng.sample(vocabulary, rng.choice([1, 1, 2]))
        if v["prefix"] and rng.random() < 0.4:
            parts[0] = rng.choice(["s", "sun", "ra", "Su"]) + v["star"]
        if v["exclude"] and rng.random() < 0.35:
            parts.insert(rng.randint(0, len(parts)), v["minus"] + rng.choice(vocabulary))
        events.append(["find", " ".join(parts)])
        if rng.random() < 0.35:
            again = ["add", rng.choice(names), rng.choice(["snow", "sun sun a", "rain of wind"])]
            events.append(rng.choice([["size"], ["remove", rng.choice(names)], again]))
    if rng.random() < 0.1:
        events.append(["find", rng.choice(["", "a,b", "."])])
    return f"{v['pkg']}.app:run", [[*events, ["size"]]]
