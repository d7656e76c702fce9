"""Which task to practise next, and how often: arithmetic on outcomes, nothing else."""

from frontier.band import BandSampler
from frontier.config import FrontierConfig
from frontier.ema_gaussian import EmaGaussianConfig, EmaGaussianSampler
from frontier.lifecycle import Event
from frontier.protocol import (
    Allocation,
    AsksForGates,
    GateRequest,
    RolloutOutcome,
    Sampler,
    TakesGroups,
    TaskInfo,
    Verdict,
)
from frontier.sampler import FrontierSampler
from frontier.uniform import UniformSampler

__all__ = [
    "Allocation",
    "AsksForGates",
    "BandSampler",
    "EmaGaussianConfig",
    "EmaGaussianSampler",
    "Event",
    "FrontierConfig",
    "FrontierSampler",
    "GateRequest",
    "RolloutOutcome",
    "Sampler",
    "TakesGroups",
    "TaskInfo",
    "UniformSampler",
    "Verdict",
]
