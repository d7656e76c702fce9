"""Chords and keysyms over all of Unicode."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.keys import KEY_NAMES, canonical_key, keysym, parse_chord, render_key

CHARACTERS = st.characters(exclude_categories=("Cc", "Cs")).filter(lambda char: char != " ")
KEYS = st.one_of(st.sampled_from(KEY_NAMES), CHARACTERS)


@given(st.lists(KEYS, min_size=1, max_size=8))
def test_a_rendered_chord_parses_to_its_keys(keys: list[str]) -> None:
    assert parse_chord("+".join(map(render_key, keys))) == tuple(keys)


@given(KEYS)
def test_a_key_has_one_canonical_form_and_a_keysym(key: str) -> None:
    assert canonical_key(key) == key == canonical_key(render_key(key))
    assert 0 < keysym(key) <= 0x1FFFFFFF


@given(CHARACTERS)
def test_a_character_is_its_own_keysym(char: str) -> None:
    assert keysym(char) & 0xFFFFFF == ord(char)
    assert (keysym(char) >> 24 == 1) == (ord(char) > 0xFF)


@given(st.text())
def test_any_name_is_a_key_or_a_value_error(name: str) -> None:
    message = ""
    try:
        key = canonical_key(name)
    except ValueError as error:
        message = str(error)
    assert message or canonical_key(key) == key
    assert len(message) < 300
