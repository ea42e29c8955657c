"""Projects about work to do: a scheduler of jobs, an index of texts with a query language."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

_SCHEDULER = Kind(
    id="scheduler",
    summary="Plans jobs over a day on several workers.",
    library="times",
    features={
        "order": ("urgent", "shortest", "given"),
        "pause": (True, False),
        "needs": (True, False),
        "late": ("drop", "mark"),
    },
    constants={
        "pkg": ("planner", "agenda", "shifts", "roster"),
        "Job": ("Job", "Chore", "Order"),
        "plan": ("plan", "arrange", "assign"),
        "opening": (480, 540, 600),
        "length": (120, 150, 180),
        "rest": (5, 10, 15),
        "usual": (15, 20, 30),
        "separator": (":", "h"),
    },
    modules={
        "times": '''
"""Times of day in minutes."""


class BadTime(Exception):
    pass


def minutes_of(text, separator='$separator'):
    """Minutes since midnight of a text like `9${separator}05`."""
    hours, found, minutes = text.partition(separator)
    if not found or not hours.isdigit() or (not minutes.isdigit()):
        raise BadTime(text)
    if int(hours) > 23 or int(minutes) > 59:
        raise BadTime(text)
    return int(hours) * 60 + int(minutes)


def clock(minutes, separator='$separator'):
    return f'{minutes // 60:02d}{separator}{minutes % 60:02d}'


def overlap(one, other):
    """Minutes that two spans, pairs of start and end, have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def rounded_up(minutes, step=5):
    return (minutes + step - 1) // step * step
''',
        "jobs": '''
"""What there is to do."""
from $lib.times import minutes_of, rounded_up


class BadJob(Exception):
    pass


class $Job:

    def __init__(self, name, length=$usual, due=None, needs=None):
        if needs is None:
            needs = []
        self.name = name
        self.length = rounded_up(length)
        self.due = due
        self.needs = needs


def parse(record):
    """A job from a dictionary with a name and more."""
    if 'name' not in record:
        raise BadJob('no name')
    due = minutes_of(record['due']) if 'due' in record else None
    job = $Job(record['name'], record.get('length', $usual), due)
    if job.length <= 0:
        raise BadJob(job.name)
    job.needs.extend(record.get('needs', []))                       #? needs
    return job
''',
        "order": '''
"""Which job comes first."""
from $pkg.jobs import BadJob

NEVER = 100000


def rank(job):
    due = NEVER if job.due is None else job.due                     #? order=urgent
    return (due, job.length, job.name)                              #? order=urgent
    return (job.length, job.name)                                   #? order=shortest
    return 0                                                        #? order=given


def in_turn(jobs):
    """The jobs in the order of work."""
    waiting = sorted(jobs, key=rank)
    known = [job.name for job in jobs]                              #? needs
    done = []                                                       #? needs
    while waiting:
        ready = [job for job in waiting if all((name in done or name not in known for name in job.needs))]   #? needs
        ready = waiting                                             #? !needs
        if not ready:                                               #? needs
            raise BadJob('circle')                                  #? needs
        job = ready[0]
        waiting.remove(job)
        done.append(job.name)                                        #? needs
        yield job
''',
        "workers": '''
"""Who does it."""

REST = $rest        #? pause
REST = 0            #? !pause


class Worker:

    def __init__(self, name, start=$opening):
        self.name = name
        self.free = start
        self.spans = []
        self._cached_busy = None

    def work(self, length, earliest=0):
        """Do something as soon as possible and return when it starts and ends."""
        start = max(self.free, earliest)
        end = start + length
        self.spans.append((start, end))
        self.free = end + REST
        self._cached_busy = None
        return (start, end)

    def busy(self):
        if self._cached_busy is None:
            self._cached_busy = sum((end - start for start, end in self.spans))
        return self._cached_busy


def first_free(workers, earliest=0):
    """Who can start first, by name among equals."""
    return min(workers, key=lambda worker: (max(worker.free, earliest), worker.name))
''',
        "planning": '''
"""Jobs to workers."""
from $pkg.order import in_turn
from $lib.times import overlap
from $pkg.workers import Worker, first_free

CLOSING = $opening + $length


def $plan(jobs, names):
    """Records of what is done, by whom and when, in the order of work, and the workers."""
    workers = [Worker(name) for name in names]
    ends = {}
    records = []
    for job in in_turn(jobs):
        earliest = max([ends.get(name, 0) for name in job.needs] + [0])         #? needs
        earliest = 0                                                            #? !needs
        worker = first_free(workers, earliest)
        start = max(worker.free, earliest)
        if start + job.length > CLOSING:                                        #? late=drop
            continue                                                            #? late=drop
        start, end = worker.work(job.length, earliest)
        ends[job.name] = end
        late = job.due is not None and end > job.due
        records.append([job.name, worker.name, start, end, late])
    return (records, workers)


def overtime(worker):
    """Minutes after closing time."""
    return sum((end - start - overlap((start, end), (0, CLOSING)) for start, end in worker.spans))
''',
        "app": '''
"""A day as one function."""
from $pkg.jobs import BadJob, parse
from $pkg.planning import overtime, $plan
from $lib.times import BadTime, clock


def day(records, names):
    """The plan of a day as text, with what each worker does, or what is wrong."""
    try:
        done, workers = $plan([parse(record) for record in records], names)
    except BadJob as error:
        return f'bad job: {error}'
    except BadTime as error:
        return f'bad time: {error}'
    lines = []
    for name, who, start, end, late in done:
        mark = ' late' if late else ''
        lines.append(f'{clock(start)}-{clock(end)} {name} ({who}){mark}')
    return {'plan': lines, 'busy': {worker.name: [worker.busy(), overtime(worker)] for worker in workers}}
''',
    },
    spec="""
- `day(records, names)` plans jobs with `name`, `length` in minutes ($usual if left out), `due` (a time like `9${separator}05`). A record without a name is `bad job: no name`, a length of 0 or less `bad job: NAME`; a due time that is none is `bad time: TEXT`, with hours up to 23 and minutes up to 59.
- Lengths are rounded up to 5 minutes. The day begins at minute $opening, for all workers.
- Jobs are taken by due time (those without one last), then the shorter first, then by name.     #? order=urgent
- Jobs are taken by length, the shorter first, then by name.                                     #? order=shortest
- Jobs are taken in the order given.                                                             #? order=given
- A job is taken, and starts, only after the jobs in its `needs` (names that are no jobs don't count; ones that were not done don't delay it); `bad job: circle` if that never happens.     #? needs
- Each job goes to who can start it first, by name among equals.
- A worker rests $rest minutes after each job.                                                   #? pause
- There are no breaks.                                                                           #? !pause
- A job that would end after closing time, minute $opening + $length, is left out.               #? late=drop
- Closing time is minute $opening + $length; work after it is done all the same and counts as overtime.     #? late=mark
- `plan` has lines like `09${separator}05-09${separator}30 paint (ada)`, with ` late` added when the job ends after its due time; `busy` tells each worker's minutes of work and of overtime.
""",  # noqa: E501
    cases=lambda rng, v: _day_case(rng, v),
)


def _day_case(rng: Random, v: Values) -> Case:
    names = ["paint", "sand", "pack", "ship", "test", "wash"]
    rng.shuffle(names)
    chosen, mark = names[: rng.randint(2, 6)], v["separator"]
    records: list[dict[str, Any]] = []
    for name in chosen:
        record: dict[str, Any] = {"name": name}
        if rng.random() < 0.8:
            record["length"] = rng.choice([5, 12, 20, 30, 45, 60, 90])
        if rng.random() < 0.5:
            minutes = v["opening"] + rng.choice([20, 30, 45, 60, 100, 200])
            record["due"] = f"{minutes // 60}{mark}{minutes % 60:02d}"
        if v["needs"] and rng.random() < 0.4:
            record["needs"] = [rng.choice(chosen if rng.random() < 0.1 else chosen[: chosen.index(name)] or ["paper"])]
        records.append(record)
    if rng.random() < 0.12:
        records.append(rng.choice([{"length": 5}, {"name": "x", "length": 0}, {"name": "y", "due": f"24{mark}00"}]))
    return f"{v['pkg']}.app:day", [records, ["ben", "ada", "cy"][: rng.randint(1, 3)]]


_INDEX = Kind(
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


KINDS = (_SCHEDULER, _INDEX)
