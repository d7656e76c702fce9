"""Skill packs: tasks made without a model. `protocol` says what a pack is, `compose` builds bundles from parts.

`splits` assigns every generated task to training, validation or the held-out suite.
"""

from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.draw import Draw
from verigen.packs.protocol import SkillPack, Template, content_key, load_packs
from verigen.packs.splits import SPLITS, Split, own_split, split_of

__all__ = [
    "SPLITS",
    "Draw",
    "Fact",
    "Miss",
    "Part",
    "Scene",
    "SkillPack",
    "Split",
    "Template",
    "compose",
    "content_key",
    "load_packs",
    "own_split",
    "split_of",
]
