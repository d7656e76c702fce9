"""Splits: no seed state is in two of them, and what is held out is never trained on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from verigen.bundle import Bundle
from verigen.packs import SPLITS, Draw, load_packs, own_split, split_of
from verigen.packs.splits import composition_split, state_split

TEMPLATES = [template for pack in load_packs() for template in pack.templates]
BUNDLES = st.builds(
    lambda template, key: template.make(Draw(str(key))), st.sampled_from(TEMPLATES), st.integers(0, 10**9)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(BUNDLES, min_size=2, max_size=8))
def test_equal_seed_states_and_reserved_compositions_stay_in_one_split(bundles: list[Bundle]) -> None:
    states: dict[str, set[str]] = {}
    for bundle in bundles:
        split = split_of(bundle)
        if split is None:
            continue
        states.setdefault(bundle.seed_state, set()).add(split)
        reserved = composition_split(bundle.task.skills)
        if reserved != "train":
            assert split == reserved
        assert split == state_split(bundle.seed_state)
    assert all(len(splits) == 1 for splits in states.values())


def test_a_task_whose_composition_and_state_disagree_is_in_no_split() -> None:
    held_out = next(
        template for template in TEMPLATES if composition_split(template.make(Draw("a")).task.skills) == "held-out"
    )
    found = [held_out.make(Draw(str(number))) for number in range(60)]
    assert {split_of(bundle) for bundle in found} == {"held-out", None}
    assert all(split_of(bundle) is None for bundle in found if state_split(bundle.seed_state) == "train")


def test_every_split_gets_its_share() -> None:
    shares = [state_split(f"state {number}") for number in range(4000)]
    assert {split: round(shares.count(split) / 4000, 1) for split in SPLITS} == {
        "train": 0.7,
        "validation": 0.1,
        "held-out": 0.2,
    }
    reserved = {composition_split(template.make(Draw("a")).task.skills) for template in TEMPLATES}
    assert reserved == set(SPLITS)


def test_the_order_of_skills_does_not_matter_and_one_skill_is_never_reserved() -> None:
    assert composition_split(("rename", "delete-file")) == composition_split(("delete-file", "rename"))
    assert {composition_split((f"skill {number}",)) for number in range(200)} == {"train"}


def test_only_generated_bundles_have_a_split_of_their_own() -> None:
    bundle = TEMPLATES[0].make(Draw("a"))
    by_hand = bundle.model_copy(update={"provenance": bundle.provenance.model_copy(update={"generator": "hand"})})
    assert own_split(bundle) == split_of(bundle)
    assert own_split(by_hand) is None
