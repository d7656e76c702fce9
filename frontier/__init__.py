"""Which task to practise next, and how often: arithmetic on outcomes, nothing else."""

from frontier.protocol import Allocation, RolloutOutcome, Sampler, Verdict
from frontier.uniform import UniformSampler

__all__ = ["Allocation", "RolloutOutcome", "Sampler", "UniformSampler", "Verdict"]
