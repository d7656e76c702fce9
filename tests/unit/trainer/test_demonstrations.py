"""Demonstrations: an oracle's text as a policy's tokens, named targets, and labels of what lies where."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary
from agent.harness import Harness
from agent.policies import NoopPolicy
from sandbox.frame import Frame
from store.trajectory import Trajectory, Turn
from tests.support.rollouts import play
from tests.support.screen import make_frame, make_node
from tests.support.trajectories import make_trajectory
from trainer.batches import training_sequences
from trainer.demonstrations import forgiving, pointing_sequence, with_tokens
from trainer.widgets import Widget, WidgetRecorder, bins_of, grounding_labels, visible_widgets, widget_at

VOCABULARY = Vocabulary(width=96, height=64, bin_px=8, words=("Save", "Line", "Numbers", "Open"))
FORM = CompactFormat(VOCABULARY, ImagePlan())
FRAMES = {frame.sha256: frame for frame in (make_frame(shade, width=96, height=64) for shade in range(5))}
NAMES = list(FRAMES)
SAVE = Widget(name="Save", left=4, top=4, right=36, bottom=20)
LINES = Widget(name="Line Numbers", left=40, top=36, right=90, bottom=60)
HARNESS = Harness(window=3, delta=2)


def oracle() -> Trajectory:
    def turn(index: int, raw: str, **changes: Any) -> Turn:
        visible = [(0,), (0, 1), (0, 1, 2), (2, 3)][index]
        return Turn(index=index, frame=NAMES[index], cursor=(0, 0), visible=visible, raw=raw, **changes)

    def click(x: int, y: int) -> tuple[dict[str, Any], ...]:
        return ({"kind": "click", "point": {"x": x, "y": y}},)

    turns = (
        turn(0, "click 20 12", actions=click(20, 12)),
        turn(1, "click 60 50", actions=click(60, 50), action_errors=("click: no such place",)),
        turn(2, "# I wait\nclick 20 12", actions=click(20, 12), thought="I wait"),
        turn(3, "done", actions=({"kind": "done"},)),
    )
    return make_trajectory("demo", turns=turns, instruction="Open it")


def told(trajectory: Trajectory) -> list[str]:
    return [FORM.decode_reply(turn.tokens.sampled_ids) for turn in trajectory.turns if turn.tokens is not None]


def test_an_oracles_text_becomes_a_policys_tokens() -> None:
    widgets = {name: (SAVE, LINES) for name in NAMES}
    demo = with_tokens(oracle(), FORM, HARNESS, frames=FRAMES.__getitem__, widgets=widgets)
    assert told(demo) == [
        "# Save\nclick 20 12",
        "# Line Numbers\nclick 60 52",
        "# I wait\nclick 20 12",
        "done",
    ]
    sequences = training_sequences(demo, FORM, window=3, delta=2, frames=FRAMES.__getitem__)
    assert [len(sequence.turns) for sequence in sequences] == [3, 1]
    ends = [sequence.ids[reply.stop - 1] for sequence in sequences for reply in sequence.replies]
    assert ends == list(FORM.stop_ids) * 4
    for sequence in sequences:
        forced = {reply.stop - 1 for reply in sequence.replies}
        assert not set(sequence.trained) & forced
    third = demo.turns[2].tokens
    assert third is not None
    assert "no such place" in FORM.decode_reply(third.sent_ids)  # what the policy would have been told
    plain = with_tokens(oracle(), FORM, HARNESS, frames=FRAMES.__getitem__)
    assert told(plain)[0] == "click 20 12"


def test_harnesses_whose_contexts_cannot_be_made_again_are_refused() -> None:
    for harness in (Harness(observe=("frame", "windows")), Harness(max_side=64)):
        with pytest.raises(ValueError, match="no max_side"):
            with_tokens(oracle(), FORM, harness, frames=FRAMES.__getitem__)


def test_pointing_trains_the_coordinates_alone() -> None:
    frame: Frame = FRAMES[NAMES[0]]
    sequence = pointing_sequence(NAMES[0], frame, [SAVE, LINES], FORM, random.Random(0))
    assert sequence is not None
    kinds = [VOCABULARY.kind(sequence.ids[index]) for index in sequence.trained]
    assert kinds == ["x", "y", "x", "y"]
    found = {FORM.decode_reply(sequence.ids[reply.start : reply.stop]) for reply in sequence.replies}
    assert found == {"# Save\nclick 20 12", "# Line Numbers\nclick 68 52"}
    grammar = FORM.grammar
    assert grammar is not None
    for reply in sequence.replies:
        grammar.states(sequence.ids[reply.start : reply.stop])
    assert pointing_sequence(NAMES[0], frame, [], FORM, random.Random(0)) is None


def test_a_click_anywhere_in_the_middle_of_its_target_is_right() -> None:
    bins = bins_of(SAVE, VOCABULARY)
    assert [VOCABULARY.text(token) for token in bins.x] == ["12", "20", "28"]
    assert [VOCABULARY.text(token) for token in bins.y] == ["12", "20"]
    speck = Widget(name="Speck", left=95, top=63, right=96, bottom=64)
    assert (len(bins_of(speck, VOCABULARY).x), len(bins_of(speck, VOCABULARY).y)) == (1, 1)
    widgets = {NAMES[0]: (SAVE,)}
    demo = oracle()
    told = with_tokens(demo, FORM, HARNESS, frames=FRAMES.__getitem__, widgets=widgets)
    first, *rest = training_sequences(told, FORM, window=3, delta=2, frames=FRAMES.__getitem__)
    kind = FORM.vocabulary.kind
    right = forgiving(first, demo, FORM, widgets).as_right
    assert {(kind(first.ids[index]), ids) for index, ids in right.items()} == {("x", bins.x), ("y", bins.y)}
    assert set(right) <= set(first.replies[0]), "only the first screenshot has a widget that is known"
    assert all(not forgiving(each, demo, FORM, widgets).as_right for each in rest)


def test_labels_name_what_covers_most_of_each_token() -> None:
    over = Widget(name="Open", left=0, top=0, right=8, bottom=8)
    labels = grounding_labels([SAVE, LINES, over], VOCABULARY, FORM.images, (96, 64))
    named = {label.index: VOCABULARY.text(label.name) for label in labels}
    assert named == {0: "Save", 1: "Save", 4: "Line", 5: "Line"}
    assert labels[0].bins == bins_of(SAVE, VOCABULARY)


def test_widgets_are_the_named_leaves_that_show() -> None:
    tree = make_node(
        "frame",
        "Window",
        make_node("push button", " Save  as ", at=(10, 10, 20, 10)),
        make_node("push button", "Hidden", at=(10, 30, 20, 10), states=()),
        make_node("label", "", at=(0, 0, 5, 5)),
        make_node("label", "Wide", at=(-10, 50, 300, 100)),
        make_node("label", "Outside", at=(200, 0, 10, 10)),
    )
    found = visible_widgets([tree], (100, 100), (50, 50))
    assert found == (
        Widget(name="Save as", left=5, top=5, right=15, bottom=10),
        Widget(name="Wide", left=0, top=25, right=50, bottom=50),
    )
    assert widget_at(found, 5, 9) == found[0]
    assert widget_at(found, 5, 10) is None
    inner = Widget(name="inner", left=6, top=6, right=8, bottom=8)
    assert widget_at([*found, inner], 6, 6) == inner


async def test_a_recorder_keeps_what_lay_on_each_screenshot() -> None:
    recorder = WidgetRecorder(NoopPolicy())
    assert recorder.wants == ("a11y",)
    trajectory = await play(recorder, [FRAMES[NAMES[0]]], window=1, delta=1)
    assert (trajectory.turns[0].raw, recorder.widgets) == ("done", {NAMES[0]: ()})
    await recorder.close()
