"""Geometry: what the modelling API makes, what a picture shows, and what counts as the part that was asked for."""

import io
import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture

from assay.errors import ConfigurationError, EnvironmentAuthorError
from assay.records import Image, Split, TaskSpec, Verdict
from assay.registry import build_plugin
from environments.base import Outcome, Script, play
from environments.domains import _geometry_measure as measure
from environments.domains import _geometry_model as model
from environments.domains._geometry_judging import Judged, Target, judge
from environments.domains._geometry_kernel import BadOperation
from environments.domains._geometry_model import Model
from environments.domains._geometry_relations import holds
from environments.domains._geometry_render import HEIGHT, WIDTH, render
from environments.domains._geometry_task import FAMILIES, draw, unbuildable
from environments.domains._geometry_tools import SEGMENTS, call
from environments.domains.geometry import script
from environments.tools import say_call
from tests.environments.domains.conftest import NoPlace

DOMAIN: Any = build_plugin("domain", "geometry")
PLATE = (
    call("box", name="plate", size=[40, 30, 10]),
    call("cylinder", name="hole", radius=5, height=12, at=[10, 15, -1]),
    call("difference", name="plate", minus=["hole"]),
)
TWO = (call("box", name="a", size=[10, 10, 10]), call("box", name="b", size=[6, 6, 4], at=[2, 2, 10]))


def disc(radius: float) -> float:
    """The area of a circle as the modeller draws it."""
    return SEGMENTS / 2 * radius**2 * math.sin(2 * math.pi / SEGMENTS)


def solid(*operations: Any) -> Any:
    """The only solid that is left."""
    (found,) = Model(operations).solids.values()
    return found


def bounds(*operations: Any) -> list[float]:
    return [round(v, 9) for v in solid(*operations).bounding_box()]


def judged(*operations: Any, reference: Any = PLATE, **options: Any) -> Judged:
    return judge(Target(given=options.pop("given", ()), reference=reference, **options), operations)


def closed(found: Judged) -> list[str]:
    return [name for name, held in found.gates.items() if not held]


async def verdict(task: TaskSpec, known: Script) -> Verdict:
    outcome = await play(DOMAIN, task, known, NoPlace())
    found: Verdict = await DOMAIN.verify(task, outcome, NoPlace())
    return found


# What the modelling API makes


@pytest.mark.parametrize(
    ("operation", "volume", "low", "high"),
    [
        (call("box", name="s", size=[1, 2, 3], at=[1, 1, 1]), 6, (1, 1, 1), (2, 3, 4)),
        (call("cylinder", name="s", radius=2, height=5), disc(2) * 5, (-2, -2, 0), (2, 2, 5)),
        (call("cylinder", name="s", radius=2, height=5, axis="x", at=[1, 0, 0]), disc(2) * 5, (1, -2, -2), (6, 2, 2)),
        (call("cylinder", name="s", radius=2, height=5, axis="y"), disc(2) * 5, (-2, 0, -2), (2, 5, 2)),
        (call("cone", name="s", radius=3, top_radius=0, height=4), disc(3) * 4 / 3, (-3, -3, 0), (3, 3, 4)),
        (call("extrude", name="s", points=[[0, 0], [4, 0], [0, 2]], height=3), 12, (0, 0, 0), (4, 2, 3)),
        (call("extrude", name="s", points=[[0, 0], [0, 2], [4, 0]], height=3, axis="x"), 12, (0, 0, 0), (3, 4, 2)),
        (call("extrude", name="s", points=[[0, 0], [4, 0], [0, 2]], height=3, axis="y"), 12, (0, 0, 0), (2, 3, 4)),
    ],
)
def test_solids_have_the_size_and_the_place_they_were_given(operation: Any, volume: float, low: Any, high: Any) -> None:
    assert solid(operation).volume() == pytest.approx(volume)
    assert bounds(operation) == pytest.approx([*low, *high])


def test_round_solids_are_within_a_percent_of_the_true_volume() -> None:
    assert solid(call("sphere", name="s", radius=10)).volume() == pytest.approx(4 / 3 * math.pi * 1000, rel=0.01)
    ring = solid(call("torus", name="s", radius=20, tube_radius=5))
    assert ring.volume() == pytest.approx(2 * math.pi**2 * 20 * 25, rel=0.01)
    assert measure.facts(ring).genus == 1


BOX = call("box", name="s", size=[4, 2, 1])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (call("move", name="s", by=[1, 2, 3]), (1, 2, 3, 5, 4, 4)),
        (call("rotate", name="s", angles=[0, 0, 90]), (-2, 0, 0, 0, 4, 1)),
        (call("rotate", name="s", angles=[90, 0, 90]), (0, 0, 0, 1, 4, 2)),
        (call("rotate", name="s", angles=[0, 0, 180], about=[4, 0, 0]), (4, -2, 0, 8, 0, 1)),
        (call("scale", name="s", factors=[2, 1, 3], about=[4, 0, 0]), (-4, 0, 0, 4, 2, 3)),
        (call("mirror", name="s", plane="yz"), (-4, 0, 0, 0, 2, 1)),
        (call("mirror", name="s", plane="xz", offset=5), (0, 8, 0, 4, 10, 1)),
        (call("mirror", name="s", plane="xy", keep=True), (0, 0, -1, 4, 2, 1)),
        (call("linear_pattern", name="s", step=[0, 3, 0], count=3), (0, 0, 0, 4, 8, 1)),
        (call("circular_pattern", name="s", count=2), (-4, -2, 0, 4, 2, 1)),
        (call("circular_pattern", name="s", count=2, step=90, centre=[4, 0, 0]), (0, -4, 0, 4, 2, 1)),
    ],
)
def test_transforms_and_patterns_end_where_they_should(change: Any, expected: Any) -> None:
    assert bounds(BOX, change) == pytest.approx(list(expected))


def test_booleans_consume_what_they_are_given_and_give_the_right_volume() -> None:
    a, b = call("box", name="a", size=[2, 2, 2]), call("box", name="b", size=[2, 2, 2], at=[1, 0, 0])
    assert solid(a, b, call("union", name="c", of=["a", "b"])).volume() == pytest.approx(12)
    assert solid(a, b, call("intersection", name="a", of=["a", "b"])).volume() == pytest.approx(4)
    assert solid(a, b, call("difference", name="a", minus=["b"])).volume() == pytest.approx(4)


def test_figures_of_a_plate_with_one_hole() -> None:
    found = measure.facts(solid(*PLATE))
    assert found.volume == pytest.approx(40 * 30 * 10 - disc(5) * 10)
    assert (found.sound, found.num_bodies, found.genus) == (True, 1, 1)
    assert measure.num_flat_faces(solid(*PLATE)) == 6 + SEGMENTS
    assert measure.num_flat_faces(solid(BOX)) == 6


def test_a_node_moves_and_turns_with_its_parents() -> None:
    scene = Model(
        [
            BOX,
            call("place", node="room", at=[10, 0, 0]),
            call("place", node="desk", parent="room", at=[0, 5, 0], angles=[0, 0, 90]),
            call("place", node="cup", part="s", parent="desk", at=[1, 0, 0]),
        ]
    ).result()
    # The desk is turned by 90 degrees: its x is the room's y, so the cup reaches from y = 6 on, 4 far.
    assert [round(v, 9) + 0.0 for v in scene.bodies["cup"].bounding_box()] == [8, 6, 0, 10, 10, 1]
    assert scene.parents == {"room": None, "desk": "room", "cup": "desk"}
    assert list(scene.bodies) == ["cup"]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (call("box", name="s", size=[1, 1, 1]), "already"),
        (call("box", name="t", size=[1, 1, 0]), "minimum"),
        (call("box", name="t", size=[1, 1]), "too short"),
        (call("box", name="t", size=[1, 1, True]), "not of type"),
        (call("box", name="T!", size=[1, 1, 1]), "does not match"),
        (call("box", name="t", size=[1, 1, 1], at=[math.nan, 0, 0]), "NonFinite"),
        (call("box", name="t", size=[1, 1, 1], at=[math.inf, 0, 0]), "maximum"),
        (call("box", name="t", size=[1, 1, 1], at=[99_999.5, 0, 0]), "beyond"),
        (call("scale", name="s", factors=[-1, 1, 1]), "minimum"),
        (call("extrude", name="t", points=[[0, 0], [2, 2], [2, 0], [0, 2]], height=1), "crosses itself"),
        (call("extrude", name="t", points=[[0, 0], [1, 0], [2, 0]], height=1), "crosses itself or has no area"),
        (call("torus", name="t", radius=2, tube_radius=2), "less than"),
        (call("move", name="t", by=[0, 0, 0]), "no solid 't'"),
        (call("union", name="t", of=["s", "s"]), "twice"),
        (call("difference", name="s", minus=["big"]), "empty"),
        (call("place", node="n", part="t"), "no solid"),
        (call("place", node="n", part="s", parent="m"), "no node 'm'"),
        (call("remove", node="n"), "no node"),
        (call("finish"), "not an operation"),
        ({"name": "box"}, "not of type"),
        ({"name": "_box", "arguments": {}}, "not an operation"),
        ("box", "not an operation"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(operation: Any, why: str) -> None:
    found = Model([BOX, call("box", name="big", size=[9, 9, 9], at=[-1, -1, -1])])
    with pytest.raises(BadOperation, match=why):
        found.apply(operation)
    assert (list(found.solids), found.nodes) == (["s", "big"], {})


def test_the_caps_hold_whatever_is_asked_for() -> None:
    ball = call("sphere", name="s", radius=1)
    with pytest.raises(BadOperation, match="triangles"):
        Model([ball, call("linear_pattern", name="s", step=[3, 0, 0], count=64)])
    ring = call("torus", name="s", radius=9, tube_radius=1)
    with pytest.raises(BadOperation, match="all operations together"):
        Model([ring, *(call("move", name="s", by=[0.1, 0, 0]) for _ in range(model.MAX_WORK // 9216 + 1))])
    comb = (call("box", name="s", size=[0.5, 99, 9]), call("linear_pattern", name="s", step=[1, 0, 0], count=64))
    across = call("rotate", name="t", angles=[0, 0, 90], about=[32, 49, 0])
    with pytest.raises(BadOperation, match=r"4,096 pairs of pieces"):
        Model([*comb, call("copy", name="s", new_name="t"), across, call("union", name="s", of=["s", "t"])])
    with pytest.raises(BadOperation, match="operations already"):
        Model([BOX, *(call("move", name="s", by=[0, 0, 0]) for _ in range(model.MAX_OPERATIONS))])
    with pytest.raises(BadOperation, match="model would have"):
        Model([ball, *(call("copy", name="s", new_name=f"s{i}") for i in range(40))])


lengths = st.floats(0.5, 20)
points = st.tuples(*[st.floats(-10, 10)] * 3).map(list)


@settings(max_examples=15, deadline=None)
@given(st.tuples(lengths, lengths, lengths).map(list), st.tuples(lengths, lengths, lengths).map(list), points, points)
def test_a_union_and_an_intersection_hold_together_what_two_solids_hold(a: Any, b: Any, at: Any, turn: Any) -> None:
    first = solid(call("box", name="a", size=a))
    second = solid(call("box", name="b", size=b, at=at), call("rotate", name="b", angles=[9 * v for v in turn]))
    both = first.volume() + second.volume()
    assert both == pytest.approx(math.prod(a) + math.prod(b), rel=1e-5)
    assert (first + second).volume() + measure.common(first, second) == pytest.approx(both, rel=1e-9)


def test_faces_that_are_meant_to_be_flush_are_joined() -> None:
    low, high = call("box", name="a", size=[1, 1, 0.1 + 0.2]), call("box", name="b", size=[1, 1, 1], at=[0, 0, 0.3])
    joined = measure.facts(solid(low, high, call("union", name="a", of=["a", "b"])))
    assert joined.num_bodies == 1
    assert joined.volume == pytest.approx(1.3)
    row = solid(call("box", name="a", size=[0.1, 1, 1]), call("linear_pattern", name="a", step=[0.1, 0, 0], count=7))
    assert measure.facts(row).num_bodies == 1


# Pictures


def pixels(image: Image) -> Any:
    return np.asarray(Picture.open(io.BytesIO(image.data)))


def test_a_picture_of_a_cube_from_above_is_a_square_of_one_shade() -> None:
    picture = pixels(render({"s": solid(call("box", name="s", size=[10, 10, 10]))}, "top"))
    drawn = (picture != 245).any(axis=2)
    # The ball around the cube, of radius 5 * sqrt(3), takes the height less the margin; so the side is known.
    side = HEIGHT / 1.08 / math.sqrt(3)
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert drawn.sum() == pytest.approx(side**2, rel=0.02)
    assert len(np.unique(picture[drawn], axis=0)) == 1


@pytest.mark.parametrize("projection", ["orthographic", "perspective"])
def test_what_is_nearer_hides_what_is_farther(projection: str) -> None:
    far, near = call("box", name="far", size=[10, 1, 10], at=[0, 8, 0]), call("box", name="near", size=[10, 1, 10])
    bodies = Model([far, near]).solids
    front, back = (pixels(render(bodies, view, projection))[HEIGHT // 2, WIDTH // 2] for view in ("front", "back"))
    alone = {name: pixels(render({**bodies, name: bodies[name]}, "front")) for name in bodies}
    assert (front != back).any()
    assert (alone["near"][HEIGHT // 2, WIDTH // 2] == pixels(render(bodies, "front"))[HEIGHT // 2, WIDTH // 2]).all()


def test_equal_models_give_equal_pictures_and_nothing_gives_a_blank_one() -> None:
    assert render({"s": solid(*PLATE)}).data == render({"s": solid(*PLATE)}).data
    assert (pixels(render({})) == 245).all()


# Episodes


async def test_an_episode_shows_figures_and_pictures_and_stores_its_operations() -> None:
    task = DOMAIN.make_task("train", 0, 0)
    episode = await DOMAIN.open(task, NoPlace())
    empty = await episode.state_hash()
    made = await episode.reply(say_call("box", name="b", size=[1, 2, 3]))
    built = await episode.state_hash()
    said = await episode.reply("\n".join([say_call("measure", name="b"), say_call("list"), say_call("render")]))
    assert made.observation == "b: from (0, 0, 0) to (1, 2, 3)"
    assert "volume 6 mm3" in said.observation
    assert "solids: b; nodes: none" in said.observation
    assert [image.media_type for image in said.images] == ["image/png"]
    assert len({empty, built}) == 2
    assert await episode.state_hash() == built
    wrong = await episode.reply("\n".join([say_call("move", name="x", by=[0, 0, 0]), say_call("finish")]))
    assert (wrong.observation, wrong.done) == ("error: move: there is no solid 'x'; solids: b", False)
    assert (await episode.reply(say_call("finish"))).done
    outcome = await episode.outcome()
    assert json.loads(outcome.submission) == {"operations": [call("box", name="b", size=[1, 2, 3])]}
    assert outcome.metrics["recovery"] == 0.0
    await episode.close()


async def test_more_turns_than_calls_cost_a_little_and_only_of_the_process_part() -> None:
    task = DOMAIN.make_task("train", 0, 0)
    oracle = DOMAIN.solutions(task).oracle
    slow = await verdict(task, (*[say_call("list")] * (task.max_turns - len(oracle)), *oracle))
    failing = await verdict(task, ("what?", *oracle))
    assert slow.passed
    assert slow.reward == pytest.approx(1 - 0.1 * 0.5)
    assert failing.passed
    assert failing.reward is not None
    assert 0.9 < failing.reward < 1.0


@pytest.mark.parametrize(
    "submission",
    [
        "",
        "null",
        "[]",
        '{"operations": {}}',
        '{"operations": [1]}',
        '{"operations": [{"name": "box", "arguments": null}]}',
        '{"operations": [{"name": "box", "arguments": {"name": "part", "size": [1e400, 1, 1]}}]}',
        '{"operations": [{"name": "box", "arguments": {"name": "part", "size": [NaN, 1, 1]}}]}',
        '{"operations": [{"name": "box", "arguments": {"name": "part", "size": [1, 1, 1], "self": 1}}]}',
        '{"operations":' + "[" * 100_000,
        "x" * 1_000_000,
    ],
)
async def test_a_forged_submission_is_graded_and_earns_nothing(submission: str) -> None:
    found = await DOMAIN.verify(DOMAIN.make_task("train", 0, 0), Outcome(submission=submission), NoPlace())
    assert (found.valid, found.passed, found.reward) == (True, False, 0.0)


async def test_forged_metrics_stay_within_their_bounds() -> None:
    task = DOMAIN.make_task("train", 0, 0)
    outcome = await play(DOMAIN, task, DOMAIN.solutions(task).oracle, NoPlace())
    forged = Outcome(submission=outcome.submission, metrics={"steps": 1e9, "valid_actions": -5, "recovery": math.nan})
    found = await DOMAIN.verify(task, forged, NoPlace())
    assert found.reward == pytest.approx(0.7 + 0.1)


# What counts as the part that was asked for


def test_facets_that_are_turned_do_not_matter_but_a_percent_does() -> None:
    hole = call("rotate", name="hole", angles=[0, 0, 180 / SEGMENTS], about=[10, 15, 0])
    assert judged(*PLATE[:2], hole, PLATE[2]).passed
    assert not judged(*PLATE, call("scale", name="plate", factors=[1.01, 1, 1])).passed
    shifted = call("cylinder", name="hole", radius=5, height=12, at=[10.5, 15, -1])
    assert not judged(PLATE[0], shifted, PLATE[2]).passed


def test_nearer_is_worth_more() -> None:
    def earned(height: float) -> float:
        found = judged(PLATE[0], call("cylinder", name="hole", radius=5, height=height, at=[10, 15, -1]), PLATE[2])
        return found.values["overlap"]

    assert 0 < earned(4) < earned(7) < earned(10) < earned(12)


def test_a_block_with_the_right_outside_earns_nothing() -> None:
    found = judged(PLATE[0])
    assert not found.passed
    assert sum(found.values[name] for name in ("overlap", "surface", "volume", "bounds", "topology")) == 0


def test_the_given_model_unchanged_earns_nothing() -> None:
    drill = call("cylinder", name="new", radius=3, height=12, at=[30, 15, -1])
    change = (drill, call("difference", name="plate", minus=["new"]))
    assert judged(given=PLATE, reference=change, *change).passed  # noqa: B026
    kept = judge(Target(given=PLATE, reference=change), ())
    assert not kept.passed
    assert set(kept.values.values()) == {0.0}


@pytest.mark.parametrize("factor", [25.4, 1 / 25.4, 1000.0, 0.001, 10.0])
def test_another_unit_closes_a_gate(factor: float) -> None:
    found = judged(*PLATE, call("scale", name="plate", factors=[factor] * 3))
    assert "units" in closed(found)
    assert not found.passed


def test_a_floating_piece_closes_a_gate() -> None:
    ball = call("sphere", name="ball", radius=4, at=[20, 15, 30])
    assert closed(judged(*PLATE, ball, call("union", name="plate", of=["plate", "ball"]))) == ["connected"]


def test_a_body_drawn_twice_closes_a_gate() -> None:
    assert closed(judged(*PLATE, call("copy", name="plate", new_name="twin"))) == ["separate"]
    place = [call("place", node=node, part="plate") for node in ("plate", "twin")]
    assert closed(judged(*PLATE, *place)) == ["separate"]


def test_a_speck_closes_a_gate_wherever_it_hides() -> None:
    for at in ([30, 15, 5], [200, 0, 0]):
        speck = call("sphere", name="speck", radius=0.5, at=at)
        assert "whole" in closed(judged(*PLATE, speck))


def test_a_body_more_than_asked_for_does_not_pass() -> None:
    found = judged(*PLATE, call("box", name="left_over", size=[20, 20, 20], at=[60, 0, 0]))
    assert not found.passed
    assert "left_over" in found.notes["nodes"]


def test_one_solid_in_place_of_two_does_not_pass() -> None:
    found = judged(*TWO, call("union", name="a", of=["a", "b"]), reference=TWO)
    assert not found.passed
    assert found.values["nodes"] <= 0.5
    assert judged(*reversed(TWO), reference=TWO).passed


def test_another_name_does_not_pass_even_where_the_shape_is_right() -> None:
    found = judged(*PLATE, call("rename", name="plate", new_name="board"))
    assert not found.passed
    assert set(found.notes) == {"nodes"}


def test_a_mesh_inside_out_open_or_not_finite_is_not_sound() -> None:
    vertices, faces = measure.triangles(solid(*PLATE))
    spoilt = vertices.copy()
    spoilt[0, 0] = np.nan
    assert measure.is_sound(vertices, faces)
    assert not measure.is_sound(vertices, faces[:, ::-1])
    assert not measure.is_sound(vertices, faces[1:])
    assert not measure.is_sound(spoilt, faces)
    assert not measure.is_sound(vertices, np.concatenate([faces, faces]))
    assert not measure.is_sound(vertices, faces[:0])


def test_the_number_of_faces_counts_only_where_it_is_asked_for() -> None:
    rod = (call("cylinder", name="rod", radius=5, height=20),)
    turns = [2 * math.pi * i / 200 for i in range(200)]
    finer = [[5 * math.cos(t), 5 * math.sin(t)] for t in turns]
    other = call("extrude", name="rod", points=finer, height=20)
    assert judged(other, reference=rod).passed
    assert not judged(other, reference=rod, faces=True).passed


@pytest.mark.parametrize(
    ("relation", "kept", "broken"),
    [
        ({"kind": "on"}, [2, 2, 10], [2, 2, 11]),
        ({"kind": "centred", "axes": "xy"}, [2, 2, 30], [3, 2, 10]),
        ({"kind": "level"}, [40, 0, 0], [40, 0, 1]),
        ({"kind": "touching"}, [10, 0, 0], [9, 0, 0]),
        ({"kind": "gap", "distance": 2.0}, [12, 0, 0], [12.1, 0, 0]),
        ({"kind": "beyond", "axis": "x", "distance": 2.0}, [12, 50, 0], [11, 50, 0]),
    ],
)
def test_relations_hold_where_they_should_and_nowhere_else(relation: Any, kept: Any, broken: Any) -> None:
    for at, expected in ((kept, True), (broken, False)):
        found = Model([TWO[0], call("box", name="b", size=[6, 6, 4], at=at)]).result()
        assert holds({"a": "b", "b": "a", **relation}, found, 20.0) is expected
    assert not holds({"a": "c", "b": "a", **relation}, found, 20.0)


def test_a_free_model_may_stand_anywhere_but_its_relations_tie_it() -> None:
    ties = ({"kind": "on", "a": "b", "b": "a"}, {"kind": "centred", "a": "b", "b": "a", "axes": "xy"})
    moved = tuple(call("move", name=name, by=[30, -7, 2]) for name in "ab")
    assert judged(*TWO, *moved, reference=TWO, relations=ties, free=True).passed
    assert not judged(*TWO, *moved, reference=TWO, relations=ties).passed
    apart = judged(*TWO, moved[1], reference=TWO, relations=ties, free=True)
    assert set(apart.notes) == {"relations"}


def test_a_parent_counts_where_it_is_asked_for() -> None:
    tie = ({"kind": "parent", "a": "b", "b": "a"},)
    root = call("place", node="a", part="a")
    reference = (*TWO, root, call("place", node="b", part="b", parent="a"))
    loose = (*TWO, root, call("place", node="b", part="b"))
    assert judged(*reference, reference=reference, relations=tie).passed
    assert set(judged(*loose, reference=reference, relations=tie).notes) == {"relations"}


# The domain


def test_without_its_packages_the_domain_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "manifold3d", None)
    with pytest.raises(ConfigurationError, match=r"manifold3d.*assay\[geometry\]"):
        build_plugin("domain", "geometry")


def test_importing_the_domain_and_making_tasks_loads_no_kernel() -> None:
    code = (
        "import sys; from assay.registry import build_plugin; d = build_plugin('domain', 'geometry'); "
        "d.check(d.make_task('train', 0, 0)); print({'manifold3d', 'trimesh', 'PIL'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "set()"


def test_only_the_levels_that_were_asked_for_are_made() -> None:
    domain = build_plugin("domain", "geometry", {"levels": [3]})
    assert {domain.make_task("train", i, 0).level for i in range(6)} == {3}
    with pytest.raises(EnvironmentAuthorError, match=r"\[4\]"):
        build_plugin("domain", "geometry", {"levels": [4]})


def test_every_family_and_variant_occurs() -> None:
    splits: tuple[Split, ...] = ("train", "heldout")
    drawn = {draw(split, i, 5, level).template for split in splits for level in (1, 2, 3) for i in range(300)}
    assert len(FAMILIES) == 21
    assert {name.split("/")[0] for name in drawn} == {family.id for family in FAMILIES}
    assert sum(len(family.variants) for family in FAMILIES) == len(drawn)


def test_a_static_look_sees_names_that_are_not_there() -> None:
    assert unbuildable(PLATE) == ""
    assert "needs plate" in unbuildable(PLATE[1:])
    assert "operation 0" in unbuildable([{"name": "cube"}])
    assert unbuildable([BOX, call("delete", name="s")]) == "nothing is left"


async def _prove(task: TaskSpec) -> None:
    known = DOMAIN.solutions(task)
    oracle, noop = await verdict(task, known.oracle), await verdict(task, known.noop)
    assert (oracle.passed, oracle.reward) == (True, 1.0), task.template
    assert noop.reward is not None
    assert not noop.passed, task.template
    assert noop.reward <= 0.2, task.template
    assert len(known.wrong) >= 5, task.template
    assert len(known.equivalent) >= 2, task.template
    for wrong in known.wrong:
        assert not (await verdict(task, wrong)).passed, (task.template, wrong)
    for right in known.equivalent:
        assert (await verdict(task, right)).passed, (task.template, right)
    rewards = [(await verdict(task, rung)).reward or 0.0 for rung in (known.oracle, *known.ladder, known.noop)]
    assert rewards == sorted(rewards, reverse=True), task.template


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(11, 16))
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("split", ["train", "heldout"])
async def test_every_known_script_has_its_standing_in_all_families(split: Any, level: int, seed: int) -> None:
    """One task of every family of the level each: 210 in all."""
    domain = build_plugin("domain", "geometry", {"levels": [level]})
    families = {family.id for family in FAMILIES if family.level == level}
    for index in range(1_000):
        task = domain.make_task(split, index, seed)
        family = task.template.split("/")[0]
        if family in families:
            families.remove(family)
            await _prove(task)
    assert not families


def test_scripts_take_a_few_calls_a_turn_and_end_with_finish() -> None:
    said = script(PLATE * 3)
    assert [text.count("<tool_call>") for text in said] == [8, 1, 1]
    assert "finish" in said[-1]
