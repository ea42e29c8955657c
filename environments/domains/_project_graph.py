"""Graphs: links in text, the shortest ways, components. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
