"""What tasks are about: plain words, short enough for a small screen to show and a small policy to copy."""

from __future__ import annotations

__all__ = ["FOLDERS", "ITEMS", "NAMES", "NO_SUCH_MENUS", "SHAPES", "STEMS", "VERBS"]

ITEMS = (
    "apples", "bread", "butter", "candles", "cheese", "coffee", "eggs", "flour", "garlic", "glue", "honey", "jam",
    "lemons", "milk", "nails", "oats", "onions", "paint", "paper", "pears", "pens", "rice", "rope", "salt", "seeds",
    "soap", "stamps", "sugar", "tape", "tea",
)  # fmt: skip
NAMES = (
    "Ada", "Ben", "Cleo", "Dora", "Emil", "Finn", "Greta", "Hugo", "Ines", "Jon", "Kira", "Leo", "Mara", "Nils",
    "Olga", "Paul", "Rosa", "Sven", "Tara", "Uma",
)  # fmt: skip
VERBS = ("call", "meet", "pay", "visit", "write to", "thank")
STEMS = (
    "bills", "budget", "diary", "draft", "garden", "guests", "ideas", "letter", "menu", "notes", "plan", "recipe",
    "report", "rota", "shopping", "songs", "tasks", "tools", "travel", "trip",
)  # fmt: skip
FOLDERS = (
    "Archive", "Backup", "Club", "Family", "Forms", "Home", "Letters", "Money", "Music", "Old", "Photos", "School",
    "Shared", "Sports", "Taxes", "Work",
)  # fmt: skip
SHAPES = (
    "anchor", "beach", "bridge", "castle", "cloud", "desert", "forest", "harbour", "island", "lake", "meadow",
    "mountain", "river", "sunset", "tower", "valley",
)  # fmt: skip
NO_SUCH_MENUS = ("Convert", "Currency", "Dates", "Graph", "History", "Lists", "Solver", "Statistics", "Tables", "Units")
"""Menus that the calculator does not have."""
