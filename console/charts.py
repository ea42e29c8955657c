"""The report's plots: rows of a query in, a static SVG out. No script reaches the page, so none can be injected.

Colours of text, axes and grid come from the page's style sheet (light and dark); the marks' palette reads on both.
"""

import json
import re
from functools import cache
from typing import Any

Row = dict[str, Any]

# Okabe and Ito's palette without black: told apart by colour-blind readers, visible on white and on dark grey.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C00"]
OUTCOMES = [
    "trained",
    "held out",
    "solvability estimate",
    "demonstration",
    "no signal",
    "too few valid",
    "not in a batch",
]
WIDTH, HEIGHT = 620, 230
REWARD_BINS = [i / 10 for i in range(9, -1, -1)]


def learning_curve(rows: list[Row]) -> str:
    """Pass rate with its interval over `step` (base, warm start, then iterations), one line per domain."""
    alt = _altair()
    steps = list(dict.fromkeys(row["step"] for row in rows))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("step:O", sort=steps, title="after iteration", axis=alt.Axis(labelAngle=0)),
        color=_domain_colour(alt, rows),
    )
    scale = alt.Scale(domain=[0, 1])
    interval = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
        y=alt.Y("low_rate:Q", scale=scale, title="held-out pass rate"), y2="high_rate:Q"
    )
    line = base.mark_line(strokeWidth=2).encode(y="pass_rate:Q")
    shape = alt.Shape(
        "policy_kind:N",
        scale=alt.Scale(domain=["base", "sft", "grpo"], range=["circle", "diamond", "square"]),
        legend=alt.Legend(title="policy", symbolFillColor="#8a8f98", symbolStrokeColor="#8a8f98"),
    )
    points = base.mark_point(filled=True, size=80, opacity=1).encode(y="pass_rate:Q", shape=shape)
    return _svg(alt.layer(interval, line, points).properties(width=WIDTH, height=HEIGHT), "curve")


def reward_distribution(rows: list[Row]) -> str:
    """Share of trajectories (0..1) per `reward_bin` (lower end, width 0.1) and iteration, one panel per domain."""
    alt = _altair()
    domains = sorted({row["domain"] for row in rows})
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("iteration:O", title="iteration", axis=alt.Axis(labelAngle=0)),
            y=alt.Y(
                "reward_bin:O", scale=alt.Scale(domain=REWARD_BINS), title="reward from", axis=alt.Axis(format=".1f")
            ),
            color=alt.Color("share:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), title="share"),
            facet=alt.Facet("domain:N", columns=2, sort=domains, title=None),
        )
        .properties(width=WIDTH // 2 - 40, height=HEIGHT - 40)
    )
    return _svg(chart, "rewards")


def funnel(rows: list[Row]) -> str:
    """What became of every dispatched rollout: `num` per exclusive `outcome`, one bar per outcome and domain."""
    alt = _altair()
    outcomes = [outcome for outcome in OUTCOMES if any(row["outcome"] == outcome for row in rows)]
    outcomes += sorted({row["outcome"] for row in rows} - set(OUTCOMES))
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("num:Q", title="trajectories", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("outcome:N", sort=outcomes, title=None),
            color=_domain_colour(alt, rows),
        )
    )
    return _svg(chart.properties(width=WIDTH - 60, height=26 * len(outcomes)), "funnel")


def time_by_phase(rows: list[Row]) -> str:
    """Seconds per stage, in order of size."""
    alt = _altair()
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(color=PALETTE[0])
        .encode(x=alt.X("seconds:Q", title="seconds"), y=alt.Y("stage:N", sort="-x", title=None))
    )
    return _svg(chart.properties(width=WIDTH - 60, height=26 * len(rows)), "time")


def _domain_colour(alt: Any, rows: list[Row]) -> Any:
    domains = sorted({row["domain"] for row in rows})
    return alt.Color("domain:N", scale=alt.Scale(domain=domains, range=PALETTE[: len(domains)] or PALETTE))


@cache
def _altair() -> Any:
    import altair

    return altair


def _svg(chart: Any, name: str) -> str:
    import vl_convert

    themed = chart.configure(background="transparent", font="sans-serif").configure_view(stroke=None)
    return _inline(vl_convert.vegalite_to_svg(json.loads(themed.to_json())), name)


def _inline(svg: str, name: str) -> str:
    """Ready to stand in a page beside others: its own ids, a size that shrinks, and no namespace addresses."""
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'((?:id="|url\(#))(clip|gradient)', rf"\1{name}-\2", svg)
    return re.sub(
        r'^<svg ([^>]*?)width="(\d+)" height="\d+"', r'<svg \1style="width:\2px;max-width:100%"', svg, count=1
    )
