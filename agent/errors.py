"""What can go wrong in an episode apart from the desktop itself.

::

    AgentError
    ├── PolicyError       the policy's engine or endpoint failed
    │   ├── ReplyTimeout  it was still at work when its reply's deadline passed
    │   └── ScriptFailed  a script's target is not on the screen
    ├── SetupFailed       a task's start state was not reached
    └── GraderFailed      grading itself failed

Each ends an episode as `infra_error`, never as a zero: `run_episode` turns them into data (promise 4). The one
exception is a ReplyTimeout at the end of the episode's own time, which is the policy's slowness.
"""

from __future__ import annotations

__all__ = ["AgentError", "GraderFailed", "PolicyError", "ReplyTimeout", "ScriptFailed", "SetupFailed"]


class AgentError(Exception):
    """Root of everything this package raises."""


class PolicyError(AgentError):
    """The policy's engine or endpoint failed; the episode ends as infra_error of phase `policy`."""


class ReplyTimeout(PolicyError):
    """The policy was still at work when its reply's deadline passed, and nothing else had gone wrong.

    Where the deadline was the end of the episode's own time, the episode ends by `time_limit` and is graded.
    """


class ScriptFailed(PolicyError):
    """A script cannot go on: what it wants to act on is not there.

    Args:
        target: the node or window that was looked for.
        seen: what was there instead.
    """

    def __init__(self, target: str, *, seen: str) -> None:
        super().__init__(f"no {target}; {seen}")
        self.target = target
        self.seen = seen


class SetupFailed(AgentError):
    """A task's setup did not reach its asserted state; the episode is an infra_error of phase `setup`."""


class GraderFailed(AgentError):
    """Grading itself failed; the episode is an infra_error of phase `grader`, never a zero."""
