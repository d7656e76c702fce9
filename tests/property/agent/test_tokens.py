"""Any text comes back from its ids; no text is ever a special token; replies keep their meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.engines.tokens import (
    ImagePlan,
    Vocabulary,
    compact_grammar,
    compact_ids,
    decode_reply,
    decode_text,
    encode_reply,
    encode_text,
    expand_ids,
)
from agent.engines.tokens import words as words_module
from agent.engines.tokens.vocabulary import VERBS
from sandbox.actions import Action, Answer, Click, Done, Drag, Infeasible, Move, Point, Press, Scroll, TypeText
from sandbox.dialects import View, get_dialect
from tests.support.screen import make_frame

VOCABULARY = Vocabulary(
    width=320,
    height=224,
    bin_px=4,
    words=("Open", "the", "File", "menu", "then", "click", "done", "Größe", "ab", "cd"),
)
VIEW = View(screen=(320, 224), shown=(320, 224))
LIKELY = [
    "Open",
    "the",
    "File",
    "<|image_pad|>",
    "<|end|>",
    " ",
    "  ",
    ",",
    "(",
    "12",
    "+",
    "é",
    "日本",
    "\n",
    '"',
    "#",
]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(LIKELY)).map("".join),
)


@given(texts)
def test_any_text_comes_back(text: str) -> None:
    ids = encode_text(VOCABULARY, text)
    assert decode_text(VOCABULARY, ids) == text
    assert {VOCABULARY.kind(token) for token in ids} <= {"word", "byte", "join"}


def test_usual_text_needs_no_joins() -> None:
    assert len(encode_text(VOCABULARY, "Open the File menu, then click")) == 7


def test_without_joins_text_would_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "_usually_apart", lambda vocabulary, left, right: False)
    ids = encode_text(VOCABULARY, "3File")
    monkeypatch.undo()
    assert decode_text(VOCABULARY, ids) != "3File"


points = st.builds(Point, x=st.integers(0, 319), y=st.integers(0, 223))
plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
actions = st.one_of(
    st.builds(Click, point=points, button=st.sampled_from(["left", "right", "middle"])),
    st.builds(Click, point=points, clicks=st.integers(1, 3)),
    st.builds(Move, point=points),
    st.builds(lambda a, b: Drag(path=(a, b)), points, points),
    st.builds(Scroll, point=points, dy=st.sampled_from([-10, -5, -3, -1, 1, 3, 5, 10])),
    st.builds(TypeText, text=plain),
    st.builds(TypeText, text=st.sampled_from(["a\nb", " outer ", '"quoted"'])),
    st.builds(Press, keys=st.sampled_from([("enter",), ("ctrl", "s"), ("alt", "f4"), ("x",)])),
    st.builds(Answer, text=plain),
    st.builds(Infeasible, reason=plain),
    st.just(Done()),
    st.just(Infeasible()),
)


def snapped(action: Action) -> Action:
    """The action with its points moved to the middle of their bins."""

    def snap(point: Point) -> Point:
        return Point(x=point.x // 4 * 4 + 2, y=point.y // 4 * 4 + 2)

    if isinstance(action, Drag):
        return action.model_copy(update={"path": tuple(map(snap, action.path))})
    if isinstance(action, Click | Move | Scroll):
        assert action.point is not None
        return action.model_copy(update={"point": snap(action.point)})
    return action


@given(actions, st.sampled_from(["", "# Open the File", "# Line 1", "# ünknown"]))
def test_actions_keep_their_meaning_and_fit_the_grammar(action: Action, thought: str) -> None:
    dialect = get_dialect("compact")
    text = "\n".join(filter(None, [thought, dialect.render(action, VIEW)]))
    ids = encode_reply(VOCABULARY, text)
    parsed = dialect.parse(decode_reply(VOCABULARY, ids), VIEW)
    assert parsed.error is None
    assert parsed.actions == (snapped(action),)
    assert parsed.thought == thought.removeprefix("# ")
    if len(encode_text(VOCABULARY, thought.removeprefix("# "))) <= 6:
        compact_grammar(VOCABULARY).states([*ids, VOCABULARY.special("<|end|>")])


def test_every_verb_has_a_way_through_the_grammar_and_a_reading() -> None:
    grammar = compact_grammar(VOCABULARY)
    for verb in VERBS:
        state, ids = 0, [VOCABULARY.find("verb", verb)]
        assert ids[0] is not None
        state = grammar.step(state, ids[0])
        while (forced := grammar.forced(state)) is None:
            token = min(grammar.allowed(state), key=lambda t: t != VOCABULARY.special("<|end|>"))
            if token == VOCABULARY.special("<|end|>"):
                break
            ids.append(token)
            state = grammar.step(state, token)
        assert forced in (None, VOCABULARY.special("<|end|>"))
        decode_reply(VOCABULARY, [token for token in ids if token is not None])


@given(st.lists(st.sampled_from(range(len(VOCABULARY))), max_size=8))
def test_any_ids_have_a_text(ids: list[int]) -> None:
    decode_reply(VOCABULARY, ids)


@pytest.mark.parametrize(
    "reply",
    ["click 2 6", "click", "click 2", "click 2 6 ctrl", "scroll 2 6 0 -7", "# ab\nclick 2 6", "press a+b", "# ab"],
)
def test_what_a_policy_may_have_written_has_ids(reply: str) -> None:
    assert decode_reply(VOCABULARY, encode_reply(VOCABULARY, reply)) == reply


def test_a_targets_name_stands_right_before_its_coordinates() -> None:
    ids = encode_reply(VOCABULARY, "# Open File\nclick 8 12")
    assert [VOCABULARY.kind(token) for token in ids] == ["verb", "word", "word", "x", "y"]


def test_what_the_grammar_does_not_allow_is_refused() -> None:
    grammar = compact_grammar(VOCABULARY)
    click = VOCABULARY.find("verb", "click")
    assert click is not None
    with pytest.raises(ValueError, match="may not follow"):
        grammar.states([click, VOCABULARY.y(3)])
    with pytest.raises(ValueError, match="may not follow"):
        grammar.states([*encode_text(VOCABULARY, "Open " * 7), click])
    end = VOCABULARY.special("<|end|>")
    done = VOCABULARY.find("verb", "done")
    assert done is not None
    with pytest.raises(ValueError, match="may not follow"):
        grammar.states([done, end, end])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jump 3 4", "'jump' has no token"),
        ("click 1 2\n# why", "thought comes after"),
        ("click 400 2", "x = 400"),
        ("click ctrl", "has no tokens"),
        ("click 1 ctrl", "has no tokens"),
    ],
)
def test_replies_without_tokens_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_reply(VOCABULARY, text)


@given(st.lists(st.one_of(st.just(7), st.integers(0, 20)), max_size=30), st.data())
def test_expanding_images_is_undone(ids: list[int], data: st.DataObject) -> None:
    count = ids.count(7)
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    expanded, starts = expand_ids(ids, 7, lengths)
    assert compact_ids(expanded, 7, lengths) == ids
    assert [expanded[start : start + length] for start, length in zip(starts, lengths, strict=True)] == [
        [7] * length for length in lengths
    ]
    with pytest.raises(ValueError, match="image placeholders"):
        expand_ids(ids, 7, [*lengths, 1])


def test_patches_are_the_pictures_squares_in_token_order() -> None:
    plan = ImagePlan(patch=2, merge=2)
    frame = make_frame(width=6, height=4)
    pixels = bytes(range(6 * 4 * 3))
    patches = plan.patches(type(frame).from_pixels(6, 4, pixels))
    assert plan.size(6, 4) == (8, 4)
    assert plan.num_tokens(6, 4) == 2
    assert patches.shape == (8, 12)
    # The first token's four patches, row by row; channel by channel within a patch.
    assert patches[0].tolist() == [0, 3, 18, 21, 1, 4, 19, 22, 2, 5, 20, 23]
    assert patches[1, :4].tolist() == [6, 9, 24, 27]
    assert patches[2, :4].tolist() == [36, 39, 54, 57]
    assert patches[4, :4].tolist() == [12, 15, 30, 33]
    assert patches[5].tolist() == [0] * 12
