"""The record of one attempt: what was seen, said and done, and how it ended.

The record is plain data. Screenshots and evidence are blobs named by hash; the record holds the names. An attempt that
ended by a failure of infrastructure has no reward at all: `outcome == "infra_error"` with a reward does not validate,
here and again in the catalog's own constraint.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "SCHEMA_VERSION",
    "ErrorInfo",
    "Outcome",
    "StopReason",
    "TokenTrace",
    "Trajectory",
    "Turn",
]

SCHEMA_VERSION = 1

Outcome = Literal["pass", "fail", "infra_error"]
StopReason = Literal[
    "done",  # the policy said so
    "infeasible",  # the policy said that it cannot be done
    "answer",  # the policy answered in words
    "max_steps",
    "time_limit",
    "token_limit",  # the next turn would not fit the context
    "parse_errors",  # too many unreadable outputs in a row
    "policy_error",  # the policy's engine or endpoint failed
    "infra_error",  # the desktop, its setup or the grader failed
    "cancelled",
]


class _Record(BaseModel):
    # Log-probabilities may be -inf; as JSON null they would not read back.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class TokenTrace(_Record):
    """The tokens of one turn exactly as the engine saw and sampled them; nothing is ever re-tokenised."""

    sent_ids: tuple[int, ...]
    """[P] Prompt ids as sent, one placeholder per image."""
    prompt_ids: tuple[int, ...]
    """[Q] Prompt ids as the engine expanded them (image placeholders repeated)."""
    sampled_ids: tuple[int, ...]
    """[S] Sampled ids, the stop token included."""
    logprobs: tuple[float, ...]
    """[S] Log-probabilities under the distribution that was sampled from."""
    sampled_mask: tuple[bool, ...]
    """[S] False on tokens that were forced, not sampled."""
    action_mask: tuple[bool, ...]
    """[S] True on tokens of the action, as opposed to thought."""
    version_span: tuple[int, int]
    """First and last weight version that sampled a token of this turn."""

    @model_validator(mode="after")
    def _aligned(self) -> TokenTrace:
        lengths = {
            len(self.sampled_ids),
            len(self.logprobs),
            len(self.sampled_mask),
            len(self.action_mask),
        }
        if len(lengths) != 1:
            raise ValueError(f"per-token fields differ in length: {sorted(lengths)}")
        return self


class Turn(_Record):
    """One observation and what the policy made of it."""

    index: int = Field(ge=0)
    """0 for the first turn."""
    frame: str | None
    """sha256 of the screenshot that the policy saw."""
    cursor: tuple[int, int]
    """Pointer position, screen pixels."""
    visible: tuple[int, ...]
    """Indices of the turns whose screenshots were in the context, this one included."""
    raw: str
    """The policy's output, verbatim."""
    thought: str = ""
    actions: tuple[dict[str, Any], ...] = ()
    """Canonical actions, JSON form, in order."""
    parse_error: str | None = None
    """What the policy was told when its output was not an action."""
    action_errors: tuple[str, ...] = ()
    """What the probe refused, if anything."""
    changed: bool | None = None
    """Whether the screen changed after the actions; None when nothing was executed."""
    timings_ms: dict[str, float] = {}
    """Milliseconds by phase: policy, parse, step."""
    facts: dict[str, Any] = {}
    """State read along the way (active window title, milestones)."""
    tokens: TokenTrace | None = None
    """None for policies that do not expose their tokens; the trainer refuses those."""


class ErrorInfo(_Record):
    """Why an attempt ended in an error."""

    type: str
    """Class name of the exception."""
    phase: str
    """setup | infra | policy | grader | unknown."""
    message: str
    state: dict[str, str] = {}


class Trajectory(_Record):
    """One attempt at one task."""

    schema_version: int = SCHEMA_VERSION
    id: str
    """Unique; the same attempt retried is a new id."""
    task_id: str
    """Hash of the bundle, or the suite's own id."""
    instruction: str
    group_id: str | None = None
    actor: str
    """Who acted: oracle, noop, random, or a policy's name."""
    harness_hash: str
    image_digest: str
    policy_hash: str
    """Identifies weights or script; a hosted model's name."""
    policy_version: int = 0
    seed_env: int
    seed_sampling: int
    split: str = "train"
    turns: tuple[Turn, ...]
    final_frame: str | None = None
    """sha256 of the screenshot at grading."""
    final_action: dict[str, Any] | None = None
    stop_reason: StopReason
    outcome: Outcome
    reward: float | None
    """In [0, 1]; None exactly when the outcome is infra_error."""
    checks: tuple[dict[str, Any], ...] = ()
    """Each check's name, score and reason."""
    verifier_id: str | None = None
    """Hash of the checks that judged it."""
    evidence: str | None = None
    """sha256 of the stored evidence (JSON)."""
    error: ErrorInfo | None = None
    module_trace: tuple[str, ...] = ()
    """Harness modules that took part, in order."""
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    timings_ms: dict[str, float] = {}
    """Milliseconds outside the turns, by phase: setup, grade."""

    @model_validator(mode="after")
    def _outcome_is_honest(self) -> Trajectory:
        if (self.outcome == "infra_error") != (self.reward is None):
            raise ValueError("a reward is given exactly when the outcome is pass or fail")
        if self.outcome == "infra_error" and self.error is None:
            raise ValueError("an infra_error names its error")
        if self.reward is not None and not 0.0 <= self.reward <= 1.0:
            raise ValueError(f"reward {self.reward} is outside [0, 1]")
        return self

    @property
    def blobs(self) -> frozenset[str]:
        """All blobs that this record refers to."""
        names = [turn.frame for turn in self.turns] + [self.final_frame, self.evidence]
        return frozenset(name for name in names if name is not None)
