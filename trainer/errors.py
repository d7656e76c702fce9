"""What can go wrong in training apart from a single attempt.

::

    TrainerError
    ├── ChildDied     a process of ours ended before it had answered
    └── NothingToDo   there is nothing to train on; the message says how to get it
"""

from __future__ import annotations

__all__ = ["ChildDied", "NothingToDo", "TrainerError"]


class TrainerError(Exception):
    """Root of everything this package raises."""


class ChildDied(TrainerError):
    """A process of ours is gone; the message says how it ended. Started again, the run goes on."""


class NothingToDo(TrainerError):
    """No task, or no demonstration, is there to train on."""
