"""Losses: pure functions of tensors, one file each. Importing them imports torch."""

from trainer.losses.grpo import ClipRange, GrpoLoss, grpo_loss
from trainer.losses.supervised import grounding_loss, likelihood_loss

__all__ = ["ClipRange", "GrpoLoss", "grounding_loss", "grpo_loss", "likelihood_loss"]
