"""How the policy ended the episode."""

from __future__ import annotations

from sandbox.actions import Action, Answer
from verigen.checks.model import FinalActionCheck
from verigen.checks.verdict import Verdict, failed, passed, shorten

__all__ = ["check_final_action"]


def check_final_action(check: FinalActionCheck, final: Action | None) -> Verdict:
    """Compare the final action's kind, and an answer's text if one is expected."""
    if final is None:
        return failed("the episode ended without a final action")
    if final.kind != check.kind:
        return failed(f"it ended with {final.kind}, expected {check.kind}")
    if isinstance(final, Answer) and check.answer is not None and _plain(final.text) != _plain(check.answer):
        return failed(f"the answer is {shorten(final.text)}, expected {shorten(check.answer)}")
    return passed(f"it ended with {final.kind}")


def _plain(text: str) -> str:
    return text.strip().casefold()
