"""A day of work: jobs, their order, workers, a plan. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
