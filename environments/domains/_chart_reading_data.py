"""Charts as values: what is drawn, on which axes, and how exactly it can be read.

    theme (by split) + kind + level ─► draw_chart ─► Chart: series over categories, axes with their ticks

Drawing is `_chart_reading_draw`, asking `_chart_reading_ask`. All numbers have at most three significant digits.
"""

import math
import random
from itertools import pairwise
from typing import Literal

from assay.records import Split, record
from environments.domains._common import side

Kind = Literal["bars", "stacked", "line", "area", "pie", "histogram", "scatter"]
Ordered = ("years", "months")

POOLS: dict[str, tuple[str, ...]] = {
    "countries": (
        "Norway", "Chile", "Kenya", "Japan", "Peru", "Italy", "Ghana", "India", "Spain", "Egypt", "Nepal", "Cuba",
        "Malta", "Qatar", "Fiji", "Oman",
    ),
    "cities": (
        "Oslo", "Lima", "Turin", "Kyoto", "Dakar", "Leeds", "Porto", "Graz", "Basel", "Quito", "Accra", "Lyon",
        "Bergen", "Malmo", "Izmir", "Cork",
    ),
    "products": (
        "Lamp", "Chair", "Desk", "Shelf", "Sofa", "Rug", "Clock", "Stool", "Mirror", "Bench", "Vase", "Tray",
        "Couch", "Crate", "Frame", "Hook",
    ),
    "crops": (
        "Wheat", "Barley", "Maize", "Rice", "Oats", "Rye", "Soy", "Lentil", "Potato", "Onion", "Carrot", "Cotton",
        "Millet", "Hemp", "Flax", "Peas",
    ),
    "teams": (
        "North", "South", "East", "West", "Alpha", "Bravo", "Delta", "Sigma", "Red", "Blue", "Green", "Amber",
        "Lynx", "Otter", "Heron", "Bison",
    ),
}  # fmt: skip
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@record
class Measure:
    """Something measured, with its unit as written on the axis and typical values (low, high)."""

    name: str
    unit: str
    span: tuple[float, float]


@record
class Theme:
    """What charts are about. `other` is what a secondary axis shows, `x` what scatter plots and histograms run over."""

    name: str
    measure: Measure
    other: Measure
    x: Measure
    categories: str
    series: str


def _theme(name: str, measure: tuple, other: tuple, x: tuple, categories: str, series: str) -> Theme:
    measures = [Measure(name=m[0], unit=m[1], span=(m[2], m[3])) for m in (measure, other, x)]
    return Theme(name=name, measure=measures[0], other=measures[1], x=measures[2], categories=categories, series=series)


_AGE, _AREA = ("Age", "years", 60, 90), ("Floor area", "m²", 90, 180)
_TEMPERATURE, _DISTANCE = ("Temperature", "°C", 20, 40), ("Distance", "km", 40, 400)
_PRICE, _STAFF = ("Price", "EUR", 20, 900), ("Staff", "people", 40, 4000)
THEMES = (
    _theme("exports", ("Exports", "million USD", 90, 9000), _STAFF, _AGE, "years", "countries"),
    _theme("harvest", ("Harvest", "thousand t", 40, 3000), _PRICE, _TEMPERATURE, "countries", "crops"),
    _theme("sales", ("Sales", "units", 60, 9000), _PRICE, _PRICE, "months", "products"),
    _theme("rainfall", ("Rainfall", "mm", 60, 600), _TEMPERATURE, _TEMPERATURE, "months", "cities"),
    _theme("power", ("Power use", "MWh", 50, 5000), _TEMPERATURE, _AREA, "months", "teams"),
    _theme("visitors", ("Visitors", "thousand", 30, 900), _PRICE, _DISTANCE, "years", "cities"),
    _theme("rents", ("Monthly rent", "EUR", 600, 4000), _STAFF, _AREA, "cities", "teams"),
    _theme("freight", ("Freight", "t", 80, 8000), _STAFF, _DISTANCE, "cities", "products"),
    _theme("wages", ("Hourly wage", "USD", 20, 90), _STAFF, _AGE, "countries", "teams"),
    _theme("output", ("Output", "pieces", 200, 20000), _STAFF, _TEMPERATURE, "teams", "products"),
    _theme("emissions", ("Emissions", "kt CO2", 40, 4000), _STAFF, _DISTANCE, "years", "countries"),
    _theme("fuel", ("Fuel use", "litres", 300, 9000), _PRICE, _DISTANCE, "months", "teams"),
    _theme("yield", ("Yield", "kg/ha", 900, 9000), _PRICE, _TEMPERATURE, "years", "crops"),
    _theme("trips", ("Bicycle trips", "thousand", 20, 800), _TEMPERATURE, _DISTANCE, "months", "cities"),
    _theme("turnover", ("Turnover", "thousand EUR", 70, 7000), _STAFF, _AREA, "teams", "products"),
    _theme("water", ("Water use", "m³", 90, 6000), _TEMPERATURE, _AREA, "cities", "crops"),
    _theme("imports", ("Imports", "million EUR", 60, 6000), _STAFF, _AGE, "countries", "products"),
    _theme("students", ("Students", "people", 90, 9000), _STAFF, _AGE, "years", "cities"),
    _theme("waste", ("Waste", "t", 70, 4000), _PRICE, _AREA, "cities", "products"),
    _theme("catch", ("Fish catch", "t", 50, 5000), _PRICE, _TEMPERATURE, "months", "countries"),
)


@record
class Axis:
    """A value axis from `low` to `high`; ticks are `step` apart, or at powers of ten where it is logarithmic."""

    measure: Measure
    low: float
    high: float
    step: float
    log: bool = False

    @property
    def label(self) -> str:
        return f"{self.measure.name} ({self.measure.unit})"

    @property
    def ticks(self) -> tuple[float, ...]:
        if self.log:
            return tuple(10.0**e for e in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1))
        return tuple(rounded(self.low + i * self.step) for i in range(round((self.high - self.low) / self.step) + 1))

    def reading_error(self, value: float) -> float:
        """How far a careful reading may be off: a fifth of a tick, or an eighth of the value on a logarithmic axis
        (5 % of the way from one power of ten to the next)."""
        return value / 8 if self.log else self.step / 5

    def place(self, value: float) -> float:
        """0 at the foot of the axis, 1 at its top."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value_at(self, place: float) -> float:
        """The inverse of `place`."""
        if self.log:
            return self.low * (self.high / self.low) ** place
        return self.low + place * (self.high - self.low)


@record
class Series:
    """Named values, one per category (or per x where it has some), on the left or the secondary axis."""

    name: str
    values: tuple[float, ...]
    xs: tuple[float, ...] = ()
    secondary: bool = False


@record
class Chart:
    """Everything that is drawn. `edges` are the bins of a histogram."""

    kind: Kind
    theme: Theme
    title: str
    series: tuple[Series, ...]
    axis: Axis
    categories: tuple[str, ...] = ()
    x_label: str = ""
    secondary: Axis | None = None
    x_axis: Axis | None = None
    edges: tuple[float, ...] = ()
    palette: int = 0
    grid: bool = True
    lying: bool = False

    def axis_of(self, series: Series) -> Axis:
        return self.secondary if series.secondary and self.secondary else self.axis

    @property
    def piled(self) -> bool:
        """Values lie on top of each other."""
        return self.kind in ("stacked", "area")


def themes(split: Split) -> list[Theme]:
    """The themes of a split."""
    return side(THEMES, split, "theme")


def draw_chart(kind: Kind, theme: Theme, level: int, split: Split, rng: random.Random) -> Chart:
    """A chart of random numbers. Level 1 has one or two series, 2 up to three, 3 up to four on harder axes."""
    looks = {"palette": rng.randrange(4), "grid": level < 3 or rng.random() < 0.5}
    if kind == "pie":
        return _pie(theme, split, rng, looks)
    if kind == "histogram":
        return _histogram(theme, rng, looks)
    if kind == "scatter":
        return _scatter(theme, level, split, rng, looks)
    return _over_categories(kind, theme, level, split, rng, looks)


def rounded(value: float, digits: int = 3) -> float:
    """To so many significant digits.

    >>> rounded(1234.5), rounded(0.0123456)
    (1230.0, 0.0123)
    """
    return float(f"{value:.{digits}g}")


def axis_for(measure: Measure, top: float, *, foot: float = 0.0) -> Axis:
    """A linear axis from 0 (or a round number below `foot`) with four to nine steps of 1, 2, 2.5 or 5 times ten^n."""
    size = 10.0 ** math.floor(math.log10((top - foot) / 6))
    step = next(rounded(size * m) for m in (1, 2, 2.5, 5, 10) if (top - foot) / (size * m) <= 8)
    low = rounded(math.floor(foot / step) * step) if foot > 0 else 0.0
    return Axis(measure=measure, low=low, high=rounded(math.ceil(top * 1.02 / step) * step, 6), step=step)


def log_axis_for(measure: Measure, values: list[float]) -> Axis:
    """Whole powers of ten around the values."""
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values) * 1.01))
    return Axis(measure=measure, low=low, high=high, step=0.0, log=True)


def _over_categories(
    kind: Kind, theme: Theme, level: int, split: Split, rng: random.Random, looks: dict[str, int | bool]
) -> Chart:
    categories = _categories(theme, split, rng)
    hard = rng.choice(("log", "secondary")) if level == 3 and kind in ("bars", "line") else ""
    num = {1: 1, 2: rng.randint(2, 3), 3: rng.randint(3, 4)}[level] + (kind in ("stacked", "area") and level == 1)
    if kind == "bars":
        num = min(num, 3)
    names = rng.sample(side(POOLS[theme.series], split, theme.series, one_in=2), num)
    spread = _spread(theme.measure, rng, wide=hard == "log")
    columns = [tuple(_value(spread, hard == "log", rng) for _ in categories) for _ in names]
    series = [Series(name=name, values=column) for name, column in zip(names, columns, strict=True)]
    secondary = None
    if hard == "secondary":
        top = spread[1]
        other = _spread(theme.other, rng, wide=False)
        values = tuple(rounded(value / top * other[1]) for value in columns[-1])
        series[-1] = Series(name=theme.other.name, values=values, secondary=True)
        secondary = axis_for(theme.other, max(values) * rng.uniform(1.0, 1.3))
    left = [s.values for s in series if not s.secondary]
    tops = (
        [sum(each) for each in zip(*left, strict=True)] if kind in ("stacked", "area") else [v for c in left for v in c]
    )
    axis = log_axis_for(theme.measure, tops) if hard == "log" else axis_for(theme.measure, max(tops))
    return Chart(
        kind=kind,
        theme=theme,
        title=_title(theme, theme.measure, f"by {_SINGULAR[theme.categories]}", rng),
        series=tuple(series),
        axis=axis,
        categories=categories,
        x_label=_SINGULAR[theme.categories].capitalize(),
        secondary=secondary,
        lying=kind in ("bars", "stacked") and level > 1 and secondary is None and rng.random() < 0.3,
        **looks,  # type: ignore[arg-type]
    )


def _pie(theme: Theme, split: Split, rng: random.Random, looks: dict[str, int | bool]) -> Chart:
    pool = theme.series if theme.categories in Ordered else theme.categories
    names = rng.sample(side(POOLS[pool], split, pool, one_in=2), rng.randint(4, 6))
    weights = [rng.uniform(1, 6) for _ in names]
    shares = [round(100 * w / sum(weights), 1) for w in weights]
    shares[-1] = round(100 - sum(shares[:-1]), 1)
    share = Measure(name=f"Share of {theme.measure.name.lower()}", unit="%", span=(0, 100))
    return Chart(
        kind="pie",
        theme=theme,
        title=f"{share.name} by {_SINGULAR[pool]} (%)",
        series=(Series(name=theme.measure.name, values=tuple(shares)),),
        axis=Axis(measure=share, low=0, high=100, step=15),
        categories=tuple(names),
        **looks,  # type: ignore[arg-type]
    )


def _histogram(theme: Theme, rng: random.Random, looks: dict[str, int | bool]) -> Chart:
    width = rng.choice((5, 10, 20, 25, 50))
    first = width * rng.randint(0, 4)
    num_bins = rng.randint(5, 8)
    edges = tuple(float(first + i * width) for i in range(num_bins + 1))
    top = rng.choice((30, 60, 120, 300, 800))
    counts = tuple(float(rng.randint(top // 8, top)) for _ in range(num_bins))
    number = Measure(name="Number", unit="cases", span=(0, top))
    return Chart(
        kind="histogram",
        theme=theme,
        title=f"Distribution of {theme.x.name.lower()}",
        series=(Series(name=theme.x.name, values=counts),),
        axis=axis_for(number, max(counts)),
        categories=tuple(f"{a:g} to {b:g}" for a, b in pairwise(edges)),
        x_label=f"{theme.x.name} ({theme.x.unit})",
        edges=edges,
        **looks,  # type: ignore[arg-type]
    )


def _scatter(theme: Theme, level: int, split: Split, rng: random.Random, looks: dict[str, int | bool]) -> Chart:
    names = rng.sample(side(POOLS[theme.series], split, theme.series, one_in=2), {1: 2, 2: 3, 3: 3}[level])
    log = level == 3
    spread, across = _spread(theme.measure, rng, wide=log), _spread(theme.x, rng, wide=False)
    series = []
    for name in names:
        points = [(_value(across, False, rng), _value(spread, log, rng)) for _ in range(rng.randint(5, 8))]
        series.append(Series(name=name, values=tuple(y for _, y in points), xs=tuple(x for x, _ in points)))
    values = [v for s in series for v in s.values]
    return Chart(
        kind="scatter",
        theme=theme,
        title=_title(theme, theme.measure, f"against {theme.x.name.lower()}", rng),
        series=tuple(series),
        axis=log_axis_for(theme.measure, values) if log else axis_for(theme.measure, max(values)),
        x_axis=axis_for(theme.x, max(x for s in series for x in s.xs)),
        x_label=f"{theme.x.name} ({theme.x.unit})",
        **looks,  # type: ignore[arg-type]
    )


_SINGULAR = {
    "years": "year", "months": "month", "countries": "country", "cities": "city", "products": "product",
    "crops": "crop", "teams": "team",
}  # fmt: skip


def _categories(theme: Theme, split: Split, rng: random.Random) -> tuple[str, ...]:
    if theme.categories == "years":
        first, num = rng.randint(1990, 2016), rng.randint(5, 9)
        return tuple(str(first + i) for i in range(num))
    if theme.categories == "months":
        num = rng.randint(5, 9)
        first = rng.randint(0, 12 - num)
        return MONTHS[first : first + num]
    return tuple(rng.sample(side(POOLS[theme.categories], split, theme.categories, one_in=2), rng.randint(4, 7)))


def _spread(measure: Measure, rng: random.Random, *, wide: bool) -> tuple[float, float]:
    """The smallest and largest value of a chart; over about three powers of ten when `wide`."""
    low, high = measure.span
    top = math.exp(rng.uniform(math.log(low), math.log(high)))
    return (top, top * 10 ** rng.uniform(2.0, 3.0)) if wide else (0.15 * top, top)


def _value(spread: tuple[float, float], log: bool, rng: random.Random) -> float:
    low, high = spread
    return rounded(math.exp(rng.uniform(math.log(low), math.log(high))) if log else rng.uniform(low, high))


def _title(theme: Theme, measure: Measure, how: str, rng: random.Random) -> str:
    head = rng.choice((measure.name, f"{measure.name}, overview", f"{measure.name} ({measure.unit})"))
    return f"{head} {how}" if "," not in head else f"{measure.name} {how}, overview"
