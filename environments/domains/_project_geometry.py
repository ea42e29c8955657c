"""Shapes on a grid: points, matrices, measures, pictures. One kind of project; see `_project_kind`."""

from random import Random

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
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
