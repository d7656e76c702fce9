"""What a policy is shown of an observation."""

from __future__ import annotations

import pytest

from agent.shown import MAX_NODES, observation_text, shown_frame, shown_size
from tests.support.screen import make_frame, make_node, make_observation, make_window


@pytest.mark.parametrize(
    ("size", "max_side", "expected"),
    [
        ((1280, 720), None, (1280, 720)),
        ((1280, 720), 1280, (1280, 720)),
        ((1280, 720), 640, (640, 360)),
        ((720, 1280), 640, (360, 640)),
        ((1000, 3), 100, (100, 1)),
        ((100, 50), 640, (100, 50)),
    ],
)
def test_sizes(size: tuple[int, int], max_side: int | None, expected: tuple[int, int]) -> None:
    assert shown_size(*size, max_side) == expected


def test_frames_are_scaled_only_when_they_must_be() -> None:
    frame = make_frame(0x336699, width=80, height=60)
    assert shown_frame(frame, None) is frame
    assert shown_frame(frame, 80) is frame
    small = shown_frame(frame, 40)
    assert (small.width, small.height) == (40, 30)
    assert small.pixels == bytes([0x33, 0x66, 0x99]) * 40 * 30
    assert shown_frame(frame, 40) == small, "the trainer must be able to make the same input again"


def test_text_only_where_asked_for_and_observed() -> None:
    observation = make_observation(windows=(make_window("mousepad", "a.txt"),), a11y=(make_node("frame", "a.txt"),))
    assert observation_text(observation, ("frame",), (160, 120)) == ""
    assert observation_text(make_observation(), ("frame", "windows", "a11y"), (160, 120)) == ""
    assert observation_text(observation, ("frame", "windows"), (160, 120)) == ("Windows:\n- mousepad 'a.txt' (active)")


def test_accessibility_positions_are_of_the_picture_shown() -> None:
    tree = make_node(
        "application",
        "editor",
        make_node("push button", "Save  ", at=(40, 20, 20, 10)),
        make_node("text", "", text="hello", at=(0, 0, 100, 100)),
        make_node("push button", "Hidden", states=()),
        make_node("push button", "Nowhere", at=None),
        make_node("push button", "Flat", at=(0, 0, 0, 5)),
        make_node("filler", ""),
        at=None,
    )
    text = observation_text(make_observation(a11y=(tree,)), ("frame", "a11y"), (80, 60))
    assert text.splitlines() == [
        "Accessibility (role, name, center in pixels of the 80x60 screenshot):",
        "- push button 'Save' (25, 12)",
        "- text '' (25, 25) text 'hello'",
    ]


def test_long_trees_are_cut_and_say_so() -> None:
    tree = make_node("application", "a", *(make_node("label", f"n{k}") for k in range(MAX_NODES + 5)), at=None)
    lines = observation_text(make_observation(a11y=(tree,)), ("a11y",), (160, 120)).splitlines()
    assert len(lines) == MAX_NODES + 2
    assert lines[-1] == "(5 more)"
