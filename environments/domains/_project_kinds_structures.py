"""Projects about data structures and algorithms: a cache with statistics, a graph, shapes and transforms."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

_CACHE = Kind(
    id="cache",
    summary="A cache with a limited size and statistics.",
    library="stats",
    features={
        "evict": ("least_recent", "least_used", "oldest"),
        "expiry": (True, False),
        "weights": (True, False),
        "pins": (True, False),
    },
    constants={
        "pkg": ("cache", "keep", "memo", "buffer"),
        "Cache": ("Cache", "Keeper", "Memo"),
        "hit": ("hit", "found", "served"),
        "lasting": (5, 6, 8),
        "capacity": (3, 4, 5),
        "scale": (100, 1000),
        "digits": (2, 3),
    },
    modules={
        "stats": '''
"""Counts and rates."""


class Counter:

    def __init__(self, counts=None):
        if counts is None:
            counts = {}
        self.counts = counts

    def increase(self, name, by=1):
        self.counts[name] = self.counts.get(name, 0) + by
        return self.counts[name]

    def count_of(self, name):
        return self.counts.get(name, 0)


def rate(part, whole, scale=$scale):
    """A share of a whole in parts of the scale, rounded down; 0 of nothing."""
    if whole == 0:
        return 0
    return part * scale // whole


def aligned(name, value, width=9):
    """A name and a value at a distance."""
    return name + '.' * (width - len(name)) + str(value)
''',
        "entry": '''
"""What is kept under a key."""


class Entry:

    def __init__(self, key, value, now, weight=1):
        self.key = key
        self.value = value
        self.made = now
        self.used = now
        self.uses = 0
        self.weight = weight
        self.pinned = False                                     #? pins

    def touch(self, now):
        self.used = now
        self.uses += 1

    def is_stale(self, now):
        """Whether it has been kept for too long."""
        return now - self.made > $lasting                       #? expiry
        return False                                            #? !expiry
''',
        "choice": '''
"""Who has to go."""


def rank(entry):
    """Entries with the lowest rank go first."""
    return (entry.used, entry.key)                              #? evict=least_recent
    return (entry.uses, entry.made, entry.key)                  #? evict=least_used
    return (entry.made, entry.key)                              #? evict=oldest


def victim(entries):
    """The entry to drop, None when all must stay."""
    allowed = [entry for entry in entries if not entry.pinned]  #? pins
    allowed = list(entries)                                     #? !pins
    if not allowed:
        return None
    return min(allowed, key=rank)
''',
        "store": '''
"""The cache itself."""
from $pkg.choice import victim
from $pkg.entry import Entry
from $lib.stats import Counter


class Full(Exception):
    pass


class $Cache:

    def __init__(self, capacity=$capacity):
        self.capacity = capacity
        self.entries = {}
        self.counter = Counter()
        self.now = 0
        self._cached_load = None

    def load(self):
        """The weight of all entries."""
        if self._cached_load is None:
            self._cached_load = sum((entry.weight for entry in self.entries.values()))
        return self._cached_load

    def drop(self, key):
        """Remove a key and tell whether it was there."""
        self._cached_load = None
        return self.entries.pop(key, None) is not None

    def put(self, key, value, weight=1):                        #? weights
    def put(self, key, value):                                  #? !weights
        """Keep a value and return the keys that had to go."""
        self.now += 1
        if weight > self.capacity:                              #? weights
            raise Full(key)                                     #? weights
        weight = 1                                              #? !weights
        self.drop(key)
        gone = []
        while self.load() + weight > self.capacity:
            entry = victim(self.entries.values())
            if entry is None:
                raise Full(key)
            self.drop(entry.key)
            self.counter.increase('evicted')
            gone.append(entry.key)
        self.entries[key] = Entry(key, value, self.now, weight)
        self._cached_load = None
        return gone

    def get(self, key, default=None):
        self.now += 1
        entry = self.entries.get(key)
        if entry is not None and entry.is_stale(self.now):
            self.drop(key)
            self.counter.increase('expired')
            entry = None
        if entry is None:
            self.counter.increase('missed')
            return default
        self.counter.increase('$hit')
        entry.touch(self.now)
        return entry.value

    def pin(self, key):                                         #? pins
        """Keep an entry for good; pinning again lets it go."""     #? pins
        if key not in self.entries:                             #? pins
            return False                                        #? pins
        entry = self.entries[key]                               #? pins
        entry.pinned = not entry.pinned                         #? pins
        return entry.pinned                                     #? pins
''',
        "app": '''
"""A cache as one function."""
from $lib.stats import aligned, rate
from $pkg.store import $Cache, Full


def summary(cache):
    """Lines with the statistics."""
    hits = cache.counter.count_of('$hit')
    missed = cache.counter.count_of('missed')
    lines = [aligned('$hit', hits), aligned('missed', missed), aligned('rate', rate(hits, hits + missed))]
    for name in ('evicted', 'expired'):
        if cache.counter.count_of(name) > 0:
            lines.append(aligned(name, cache.counter.count_of(name)))
    return lines


def perform(cache, event):
    name = event[0]
    if name == 'put':
        return cache.put(*event[1:])
    if name == 'get':
        return cache.get(event[1], 'nothing')
    if name == 'drop':
        return cache.drop(event[1])
    if name == 'pin':                                           #? pins
        return cache.pin(event[1])                              #? pins
    return sorted(cache.entries)


def run(events, capacity=None):
    """Results of events in turn, then the load and the statistics."""
    cache = $Cache() if capacity is None else $Cache(capacity)
    results = []
    for event in events:
        try:
            results.append(perform(cache, event))
        except Full as error:
            results.append(f'full: {error}')
    return [results, cache.load(), summary(cache)]
''',
    },
    spec="""
- `run(events, capacity)` gives the results of the events, the weight of all entries, and the statistics. Without a capacity it is $capacity.
- `put` keeps a value under a key, which replaces what was there and lets others go as long as the weights exceed the capacity. It gives the keys that went, in turn.
- A value weighs 1 if nothing else is said; one that weighs more than the capacity is `full: key`, and nothing changes.     #? weights
- Every value weighs 1.                                                                     #? !weights
- The entry goes that was last put or got longest ago.                                      #? evict=least_recent
- The entry goes that was got the least number of times since it was put, among equals the one put first.     #? evict=least_used
- The entry goes that was put first, whatever was got.                                      #? evict=oldest
- `pin` keeps an entry from going, and lets it go when it is pinned already; it gives whether it is pinned now, false for no entry. When only pinned entries are left to go, `put` is `full: key`; what went before that is gone, and so is the old value of the key.     #? pins
- Time is counted in calls of `put` and `get`. An entry put more than $lasting calls ago is dropped when it is got, and counts as expired and missed.     #? expiry
- Entries never expire.                                                                     #? !expiry
- `get` gives the value, or `nothing`. `drop` removes an entry and gives whether it was there. `keys` lists the keys sorted.
- Statistics are lines like `missed...4` with 9 characters before the value: `$hit`, `missed`, `rate` (per $scale of all gets, rounded down, 0 without any), then `evicted` and `expired` if there are any.
""",  # noqa: E501
    cases=lambda rng, v: _cache_case(rng, v),
)


def _cache_case(rng: Random, v: Values) -> Case:
    keys = ["a", "b", "c", "d", "e", "f"]
    events: list[list[Any]] = []
    for _ in range(rng.randint(8, 18)):
        roll, key = rng.random(), rng.choice(keys)
        if roll < 0.45:
            weight = [rng.choice([1, 1, 2, v["capacity"], v["capacity"] + 1])] if v["weights"] else []
            events.append(["put", key, rng.randint(10, 99), *(weight if rng.random() < 0.4 else [])])
        elif roll < 0.8:
            events.append(["get", key])
        elif roll < 0.9:
            events.append(["pin", key] if v["pins"] else ["get", key])
        else:
            events.append(rng.choice([["drop", key], ["keys"]]))
    return f"{v['pkg']}.app:run", [[*events, ["keys"]], *([rng.choice([1, 2])] if rng.random() < 0.3 else [])]


_GRAPH = Kind(
    id="graph",
    summary="Graphs: reading, reachability, shortest ways, order, components.",
    library="queues",
    features={
        "directed": (True, False),
        "tie": ("fewest_stops", "name"),
        "blocked": (True, False),
        "toll": (True, False),
    },
    constants={
        "pkg": ("graph", "roads", "network", "routes"),
        "Graph": ("Graph", "Map", "Net"),
        "link": ("link", "join", "connect"),
        "mark": (">", ":", "~"),
        "toll_cost": (1, 2, 5),
        "default_weight": (1, 2, 3),
        "far": (3, 4),
    },
    modules={
        "queues": '''
"""Queues."""


class Empty(Exception):
    pass


class Queue:

    def __init__(self, items=None):
        if items is None:
            items = []
        self.items = items

    def push(self, item):
        self.items.append(item)

    def pull(self):
        """The item that came first."""
        if not self.items:
            raise Empty('queue')
        return self.items.pop(0)

    def __len__(self):
        return len(self.items)


def insort(items, item, first=0):
    """Put an item into a sorted list, behind equal ones, and return its place."""
    low, high = (first, len(items))
    while low < high:
        middle = (low + high) // 2
        if item < items[middle]:
            high = middle
        else:
            low = middle + 1
    items.insert(low, item)
    return low


def distinct(items, keep=None):
    """Items without those that came before, at most `keep` of them."""
    found = []
    for item in items:
        if item not in found:
            found.append(item)
    return found[:keep]
''',
        "links": '''
"""Nodes and links."""


class BadLink(Exception):
    pass


class $Graph:

    def __init__(self):
        self.near = {}
        self.closed = []
        self._cached_nodes = None

    def $link(self, source, target, weight=$default_weight):
        if weight < 0 or source == target:
            raise BadLink(f'{source} {target}')
        self.near.setdefault(source, {})[target] = weight
        self.near.setdefault(target, {})
        self.near[target][source] = weight                              #? !directed
        self._cached_nodes = None

    def nodes(self):
        if self._cached_nodes is None:
            self._cached_nodes = sorted(self.near)
        return self._cached_nodes

    def neighbours(self, node):
        """Pairs of an open neighbour and the weight of the link, by name."""
        for name in sorted(self.near.get(node, {})):
            if name in self.closed:                                     #? blocked
                continue                                                #? blocked
            yield (name, self.near[node][name])

    def degree(self, node):
        return len(list(self.neighbours(node)))


def read(lines):
    """A graph from lines like `a $mark b 4`; a line `! a` closes a node."""
    graph = $Graph()
    for line in lines:
        words = line.split()
        if words[:1] == ['!']:                                          #? blocked
            graph.closed.append(words[1])                                  #? blocked
        elif len(words) >= 3 and words[1] == '$mark':                   #? blocked
        if len(words) >= 3 and words[1] == '$mark':                     #? !blocked
            if len(words) > 3:
                graph.$link(words[0], words[2], int(words[3]))
            else:
                graph.$link(words[0], words[2])
        else:
            raise BadLink(line)
    return graph
''',
        "search": '''
"""Ways through a graph."""
from $lib.queues import Queue, distinct, insort


def reachable(graph, start, most=None):
    """Nodes by the number of links they are away, at most so many."""
    away = {start: 0}
    queue = Queue()
    queue.push(start)
    while len(queue) > 0:
        node = queue.pull()
        if most is not None and away[node] >= most:
            continue
        for name, _ in graph.neighbours(node):
            if name not in away:
                away[name] = away[node] + 1
                queue.push(name)
    return away


def cost_of(weight, is_first):
    """The cost of one more link on a way."""
    if not is_first:                                                    #? toll
        return weight + $toll_cost                                      #? toll
    return weight


def shortest(graph, start, goal):
    """The cost and the nodes of the cheapest way, None when there is none."""
    waiting = []
    insort(waiting, (0, 0, [start]))                                    #? tie=fewest_stops
    insort(waiting, (0, [start]))                                       #? tie=name
    settled = []
    while waiting:
        cost, stops, way = waiting.pop(0)                               #? tie=fewest_stops
        cost, way = waiting.pop(0)                                      #? tie=name
        node = way[-1]
        if node == goal:
            return (cost, way)
        if node in settled:
            continue
        settled.append(node)
        for name, weight in graph.neighbours(node):
            if name in settled:
                continue
            farther = cost + cost_of(weight, len(way) == 1)
            insort(waiting, (farther, stops + 1, way + [name]))         #? tie=fewest_stops
            insort(waiting, (farther, way + [name]))                    #? tie=name
    return None


def on_ways(graph, start, goals):
    """All nodes on the cheapest ways to the goals, in turn, each once."""
    found = []
    for goal in goals:
        result = shortest(graph, start, goal)
        if result is not None:
            found.extend(result[1])
    return distinct(found)
''',
        "structure": '''
"""The shape of a graph."""
from $pkg.search import reachable


def components(graph):
    """Groups of nodes that hang together, each sorted, by their first node."""
    group = {name: name for name in graph.nodes()}
    for name in graph.nodes():
        for other in graph.near[name]:
            old, new = (max(group[name], group[other]), min(group[name], group[other]))
            for each in group:
                if group[each] == old:
                    group[each] = new
    found = {}
    for name in graph.nodes():
        found.setdefault(group[name], []).append(name)
    return [found[name] for name in sorted(found)]


def hubs(graph, number=2):
    """The nodes with the most open neighbours, by name among equals."""
    ranked = sorted(graph.nodes(), key=lambda node: (-graph.degree(node), node))
    return ranked[:number]


def remote(graph, start):
    """Nodes that are $far or more links away, or cannot be reached."""
    away = reachable(graph, start)
    return [name for name in graph.nodes() if away.get(name, $far) >= $far]
''',
        "app": '''
"""Questions about a graph in text."""
from $pkg.links import BadLink, read
from $pkg.search import on_ways, reachable, shortest
from $pkg.structure import components, hubs, remote


def ask(lines, question, *about):
    """The answer to a question, or the line that is bad."""
    try:
        graph = read(lines)
    except BadLink as error:
        return f'bad link: {error}'
    if question == 'way':
        return shortest(graph, *about)
    if question == 'around':
        return reachable(graph, *about)
    if question == 'tour':
        return on_ways(graph, about[0], about[1:])
    if question == 'groups':
        return components(graph)
    if question == 'hubs':
        return hubs(graph, *about)
    return remote(graph, about[0])
''',
    },
    spec="""
- `ask(lines, question, ...)`: a line `a $mark b 4` links a and b with weight 4, or $default_weight if none is given. Weights below 0, links of a node to itself and other lines are a bad link. A later link replaces an earlier one.
- Links lead one way only.                                                            #? directed
- Links lead both ways.                                                               #? !directed
- A line `! a` closes node a: no way leads to it, but ways may start there, and it stays a node if it is linked.     #? blocked
- `way a b`: cost and nodes of the cheapest way, null for none. The cost is the sum of the weights.                                               #? !toll
- `way a b`: cost and nodes of the cheapest way, null for none. The cost is the sum of the weights, and $toll_cost more for each link but the first.     #? toll
- Among equally cheap ways the one with fewer nodes is preferred, then the one first by names.     #? tie=fewest_stops
- Among equally cheap ways the one first by the names of its nodes is preferred.                   #? tie=name
- `around a 2`: for each node how many links it is away, at most 2 (any number if left out). `tour a b c`: the nodes on the cheapest ways from a to b and from a to c, in turn, each once.
- `groups`: nodes linked in any direction, closed or not; each group sorted, groups by their first node.
- `hubs n`: the n nodes (2 if left out) with the most open neighbours, by name among equals. `remote a`: nodes $far or more links away from a, or out of reach, by name.
""",  # noqa: E501
    cases=lambda rng, v: _graph_case(rng, v),
)


def _graph_case(rng: Random, v: Values) -> Case:
    names = ["a", "b", "c", "d", "e", "f", "g"][: rng.randint(4, 7)]
    lines = []
    for _ in range(rng.randint(4, 11)):
        one, other = rng.sample(names, 2)
        weight = rng.choice(["", " 1", " 2", " 3", " 5", " 0"])
        lines.append(f"{one} {v['mark']} {other}{weight}")
    if v["blocked"] and rng.random() < 0.4:
        lines.append(f"! {rng.choice(names)}")
    if rng.random() < 0.05:
        lines.append(rng.choice([f"a {v['mark']} a", f"a {v['mark']} b -1", "a b"]))
    one, other, third = rng.sample(names, 3)
    asked: list[list[Any]] = [["way", one, other]] * 5
    asked += [["around", one], ["around", one, rng.randint(1, 2)], ["tour", one, other, third], ["groups"]]
    asked += [["hubs"], ["hubs", 3], ["remote", one]]
    question = rng.choice(asked)
    return f"{v['pkg']}.app:ask", [lines, *question]


_SHAPES = Kind(
    id="geometry",
    summary="Points, transforms and measures of shapes on a grid.",
    library="points",
    features={
        "turn": ("left", "right"),
        "metric": ("manhattan", "chess", "squared"),
        "border": (True, False),
        "frame": (True, False),
    },
    constants={
        "pkg": ("shapes", "plane", "geo", "drawing"),
        "Matrix": ("Matrix", "Grid", "Square"),
        "apply": ("apply", "mapped", "transform"),
        "grow": ("scale", "grow", "stretch"),
        "margin": (1, 2, 3),
        "default_factor": (2, 3),
        "ink": ("#", "o", "X"),
        "blank": (".", "-"),
    },
    modules={
        "points": '''
"""Points as pairs of whole numbers."""


class BadPoint(Exception):
    pass


def point(values):
    if len(values) != 2:
        raise BadPoint('two numbers')
    return (values[0], values[1])


def minus(one, other):
    return (one[0] - other[0], one[1] - other[1])


def cross(one, other):
    """Twice the area between two points and the origin, with a sign."""
    return one[0] * other[1] - one[1] * other[0]


def distance(one, other):
    dx, dy = minus(one, other)
    return abs(dx) + abs(dy)                                            #? metric=manhattan
    return max(abs(dx), abs(dy))                                        #? metric=chess
    return dx * dx + dy * dy                                            #? metric=squared


def farther(start, step, times=1):
    """The point so many steps away."""
    return (start[0] + step[0] * times, start[1] + step[1] * times)
''',
        "matrix": '''
"""Square matrices of two rows."""
from $lib.points import point


class $Matrix:

    def __init__(self, rows=((1, 0), (0, 1))):
        self.rows = rows

    def times(self, other):
        """The product: what `other` does first, then this one."""
        rows = []
        for row in self.rows:
            rows.append([sum((row[k] * other.rows[k][column] for k in range(2))) for column in range(2)])
        return $Matrix(rows)

    def $apply(self, at):
        return point([row[0] * at[0] + row[1] * at[1] for row in self.rows])

    def determinant(self):
        return self.rows[0][0] * self.rows[1][1] - self.rows[0][1] * self.rows[1][0]


def quarter_turn():
    return $Matrix([[0, -1], [1, 0]])                                   #? turn=left
    return $Matrix([[0, 1], [-1, 0]])                                   #? turn=right


def mirror():
    return $Matrix([[-1, 0], [0, 1]])


def $grow(factor=$default_factor):
    return $Matrix([[factor, 0], [0, factor]])


def read(words):
    """The matrix of several steps, of which the first is done first."""
    matrix = $Matrix()
    for word in words:
        if word == 'turn':
            step = quarter_turn()
        elif word == 'mirror':
            step = mirror()
        else:
            step = $grow()
        matrix = step.times(matrix)
    return matrix
''',
        "measure": '''
"""Measures of shapes, which are lists of corners."""
from $lib.points import cross, distance, farther, minus


def sides(corners):
    """Pairs of neighbouring corners, the last with the first."""
    for place in range(len(corners)):
        yield (corners[place - 1], corners[place])


def twice_area(corners):
    return abs(sum((cross(one, other) for one, other in sides(corners))))


def around(corners):
    """The length of all sides."""
    return sum((distance(one, other) for one, other in sides(corners)))


def box(corners, margin=0):
    """The lowest and the highest corner of the box around a shape."""
    low = (min((x for x, _ in corners)), min((y for _, y in corners)))
    high = (max((x for x, _ in corners)), max((y for _, y in corners)))
    return (farther(low, (-1, -1), margin), farther(high, (1, 1), margin))


def contains(corners, at):
    """Whether a point lies in a shape; on its sides counts or not, as the shape's rules say."""
    inside = False
    for one, other in sides(corners):
        if cross(minus(other, one), minus(at, one)) == 0 and on_side(one, other, at):
            return True                                                 #? border
            return False                                                #? !border
        if (one[1] > at[1]) != (other[1] > at[1]):
            left, right = (one, other) if one[1] < other[1] else (other, one)
            if cross(minus(right, left), minus(at, left)) > 0:
                inside = not inside
    return inside


def on_side(one, other, at):
    """Whether a point on the line through two corners lies between them."""
    between_x = min(one[0], other[0]) <= at[0] <= max(one[0], other[0])
    between_y = min(one[1], other[1]) <= at[1] <= max(one[1], other[1])
    return between_x and between_y
''',
        "picture": '''
"""Shapes as text."""
from $pkg.measure import box, contains


def rows(corners):
    """The rows of a picture, the highest first."""
    low, high = box(corners, $margin)                                   #? frame
    low, high = box(corners)                                            #? !frame
    for y in range(high[1], low[1] - 1, -1):
        yield ''.join(('$ink' if contains(corners, (x, y)) else '$blank' for x in range(low[0], high[0] + 1)))


def picture(corners):
    return list(rows(corners))
''',
        "app": '''
"""Shapes as one function."""
from $pkg.matrix import read
from $pkg.measure import around, box, contains, twice_area
from $pkg.picture import picture
from $lib.points import BadPoint, point


def measure(corners, steps=()):
    """Figures of a shape after some steps."""
    matrix = read(steps)
    try:
        moved = [matrix.$apply(point(corner)) for corner in corners]
    except BadPoint as error:
        return f'bad point: {error}'
    if len(moved) < 3:
        return 'no shape'
    return {'area': twice_area(moved), 'around': around(moved), 'box': box(moved), 'factor': matrix.determinant(), 'corners': moved}


def draw(corners):
    """A shape as rows of text."""
    return picture([point(corner) for corner in corners])


def inside(corners, points):
    """Which of the points lie in a shape."""
    return [at for at in points if contains([point(corner) for corner in corners], point(at))]
''',  # noqa: E501
    },
    spec="""
- `measure(corners, steps)`: twice the area, the length of all sides, the box (lowest and highest corner), the determinant of all steps and the corners after the steps. Fewer than three corners are `no shape`, a corner without exactly two numbers is `bad point: two numbers`.
- The steps are done in turn: `turn` is a quarter turn to the left about the origin.            #? turn=left
- The steps are done in turn: `turn` is a quarter turn to the right about the origin.           #? turn=right
- `mirror` changes the sign of x; `grow` multiplies by $default_factor.
- The length of a side is the difference in x plus the difference in y.                         #? metric=manhattan
- The length of a side is the larger of the differences in x and in y.                          #? metric=chess
- The length of a side is counted as its square.                                                #? metric=squared
- Points on a side belong to the shape.                                                         #? border
- Points on a side do not belong to the shape.                                                  #? !border
- `inside(corners, points)`: those of the points that belong to the shape, in turn.
- `draw(corners)`: a picture of the box with $margin more on every side, highest row first, `$ink` for points of the shape, `$blank` for others.     #? frame
- `draw(corners)`: a picture of the box, highest row first, `$ink` for points of the shape, `$blank` for others.                                     #? !frame
""",  # noqa: E501
    cases=lambda rng, v: _shape_case(rng, v),
)


def _shape_case(rng: Random, v: Values) -> Case:
    outline = rng.choice(
        [
            [[0, 0], [4, 0], [4, 3], [0, 3]],
            [[0, 0], [5, 0], [5, 5], [3, 2]],
            [[1, 0], [4, 2], [2, 5], [0, 3]],
            [[0, 0], [6, 1], [3, 4]],
            [[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]],
        ]
    )
    dx, dy = rng.randint(-3, 3), rng.randint(-3, 3)
    corners = [[x + dx, y + dy] for x, y in outline]
    roll = rng.random()
    if roll < 0.5:
        if rng.random() < 0.12:
            corners = corners[: rng.randint(1, 2)] if rng.random() < 0.5 else [*corners, [1, 2, 3]]
        steps = [rng.choice(["turn", "mirror", "grow"]) for _ in range(rng.randint(0, 3))]
        return f"{v['pkg']}.app:measure", [corners, *([steps] if steps else [])]
    if roll < 0.75:
        return f"{v['pkg']}.app:draw", [corners]
    points = [[rng.randint(-2, 6) + dx, rng.randint(-2, 5) + dy] for _ in range(12)]
    return f"{v['pkg']}.app:inside", [corners, points + corners[:1]]


KINDS = (_CACHE, _GRAPH, _SHAPES)
