"""A chart as a PNG of 480 x 320 pixels, drawn with matplotlib's Agg canvas through its object interface.

Equal charts give equal bytes with equal versions of matplotlib, in every process and thread: a person's own settings
play no part, and the file names neither a program nor a time.
"""

import io
import threading
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from assay.errors import ConfigurationError
from environments.domains._chart_reading_data import Axis, Chart

WIDTH, HEIGHT, DPI = 4.8, 3.2, 100
PALETTES = (
    ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"),
    ("#264653", "#e76f51", "#2a9d8f", "#e9c46a", "#8d6a9f", "#5c8001"),
    ("#003f5c", "#ffa600", "#bc5090", "#58a65c", "#7a7a7a", "#3bb0d6"),
    ("#4e79a7", "#e15759", "#59a14f", "#b07aa1", "#edc948", "#76b7b2"),
)
MARKERS = ("o", "s", "^", "D", "v", "P")
# matplotlib's settings are the process's; whoever else draws meanwhile must not see ours, nor we theirs.
_SETTINGS = threading.Lock()
_STYLE = {"font.size": 8.0, "axes.titlesize": 9.0, "axes.linewidth": 0.8, "path.simplify": True}


def require_matplotlib() -> None:
    """Raises ConfigurationError that names the extra when matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"The domain 'chart_reading' draws its charts with matplotlib, which is not installed ({error}). Install "
            "Assay with the extra 'charts': pip install 'assay[charts]'."
        ) from error


@lru_cache(maxsize=256)
def png(chart: Chart) -> bytes:
    """The file. The last ones are kept: inspection makes the same tasks again and again."""
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    plain = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    written = io.BytesIO()
    with _SETTINGS, matplotlib.rc_context():
        # Not `update`: it would check some 300 values that are matplotlib's own.
        dict.update(matplotlib.rcParams, {**plain, **_STYLE})
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
        canvas = FigureCanvasAgg(figure)
        _fill(figure, chart)
        canvas.draw()
        pixels = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    few = pixels.convert("RGB").quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(written, "png", compress_level=6)
    return written.getvalue()


def _fill(figure: Any, chart: Chart) -> None:
    figure.text(0.5, 0.94, chart.title, ha="center", fontsize=9)
    if chart.kind == "pie":
        _pie(figure, chart)
        return
    axes = figure.add_axes((0.19 if chart.lying else 0.15, 0.17, 0.68 if chart.secondary else 0.73, 0.61))
    other = axes.twinx() if chart.secondary else None
    _scale(axes, "x" if chart.lying else "y", chart.axis)
    if chart.secondary is not None:
        _scale(other, "y", chart.secondary)
    _DRAWN[chart.kind](axes, chart)
    if other is not None:
        _on_the_right(other, chart)
    (axes.set_ylabel if chart.lying else axes.set_xlabel)(chart.x_label)
    if chart.grid:
        axes.grid(axis="x" if chart.lying else "y", color="#d0d0d0", linewidth=0.6)
        axes.set_axisbelow(True)
    # Fixed places: looking for them would take a fifth of the whole drawing.
    axes.xaxis.set_label_coords(0.5, -0.16)
    axes.yaxis.set_label_coords(-0.17, 0.5)
    if other is not None:
        other.yaxis.set_label_coords(1.17, 0.5)
    if len(chart.series) > 1:
        _legend([axes] if other is None else [axes, other])


def _scale(axes: Any, which: str, axis: Axis) -> None:
    """Fixed limits and ticks: what can be read off is part of the task."""
    if axis.log:
        axes.set(**{f"{which}scale": "log"})
    axes.set(**{f"{which}lim": (axis.low, axis.high), f"{which}label": axis.label})
    _ticks(getattr(axes, f"{which}axis"), axis.ticks, [_number(tick) for tick in axis.ticks])


def _ticks(axis: Any, places: Sequence[float], labels: Sequence[str]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(labels))
    axis.set_minor_locator(NullLocator())


def _number(value: float) -> str:
    """`2,500`, `0.25`, never an exponent."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def _bars(axes: Any, chart: Chart) -> None:
    left = [series for series in chart.series if not series.secondary]
    thick = 0.7 if chart.piled else 0.8 / len(left)
    base = [0.0] * len(chart.categories)
    for i, series in enumerate(left):
        shift = 0.0 if chart.piled else (i - (len(left) - 1) / 2) * thick
        at = [place + shift for place in range(len(chart.categories))]
        foot = {"left" if chart.lying else "bottom": list(base)} if chart.piled else {}
        draw = axes.barh if chart.lying else axes.bar
        draw(at, series.values, thick, color=_colour(chart, i), label=series.name, **foot)
        base = [a + b for a, b in zip(base, series.values, strict=True)]
    _name_places(axes, chart)


def _lines(axes: Any, chart: Chart) -> None:
    for i, series in enumerate(chart.series):
        if not series.secondary:
            axes.plot(series.values, color=_colour(chart, i), marker=MARKERS[i], ms=3.5, lw=1.4, label=series.name)
    _name_places(axes, chart)


def _on_the_right(other: Any, chart: Chart) -> None:
    for i, series in enumerate(chart.series):
        if series.secondary:
            look = {"color": _colour(chart, i), "marker": MARKERS[i], "ms": 4, "lw": 1.4, "ls": "--"}
            other.plot(series.values, label=f"{series.name} (right)", **look)


def _area(axes: Any, chart: Chart) -> None:
    columns = [series.values for series in chart.series]
    colours = [_colour(chart, i) for i in range(len(columns))]
    axes.stackplot(range(len(chart.categories)), *columns, colors=colours, labels=[s.name for s in chart.series])
    axes.set_xlim(0, len(chart.categories) - 1)
    _name_places(axes, chart)


def _histogram(axes: Any, chart: Chart) -> None:
    widths = [b - a for a, b in pairwise(chart.edges)]
    axes.bar(chart.edges[:-1], chart.series[0].values, widths, align="edge", color=_colour(chart, 0), edgecolor="white")
    _ticks(axes.xaxis, chart.edges, list(map(_number, chart.edges)))


def _scatter(axes: Any, chart: Chart) -> None:
    for i, series in enumerate(chart.series):
        look = {"ls": "", "marker": MARKERS[i], "ms": 4.5, "color": _colour(chart, i)}
        axes.plot(series.xs, series.values, label=series.name, **look)
    if chart.x_axis is not None:
        _scale(axes, "x", chart.x_axis)


def _pie(figure: Any, chart: Chart) -> None:
    axes = figure.add_axes((0.25, 0.04, 0.5, 0.84))
    colours = [_colour(chart, i) for i in range(len(chart.categories))]
    edge = {"edgecolor": "white", "linewidth": 0.8}
    values, names = chart.series[0].values, chart.categories
    axes.pie(values, labels=names, colors=colours, startangle=90, counterclock=False, wedgeprops=edge)


_DRAWN = {
    "bars": _bars,
    "stacked": _bars,
    "line": _lines,
    "area": _area,
    "histogram": _histogram,
    "scatter": _scatter,
}


def _name_places(axes: Any, chart: Chart) -> None:
    _ticks(axes.yaxis if chart.lying else axes.xaxis, range(len(chart.categories)), chart.categories)


def _legend(sides: Sequence[Any]) -> None:
    """One line above the axes, where it hides nothing."""
    found = [each.get_legend_handles_labels() for each in sides]
    handles, labels = [h for each, _ in found for h in each], [label for _, each in found for label in each]
    look = {"frameon": False, "fontsize": 7.5, "handlelength": 1.6, "columnspacing": 1.2}
    sides[0].legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, **look)


def _colour(chart: Chart, index: int) -> str:
    palette = PALETTES[chart.palette]
    return palette[index % len(palette)]
