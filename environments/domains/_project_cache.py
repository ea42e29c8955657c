"""A cache: entries, who has to go, statistics. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
