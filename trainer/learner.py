"""The learner: sequences in, better weights out, and everything it takes to go on after a kill.

::

    sequences -> denominators of the whole update -> micro-batches: forward, loss, backward -> clip -> step
                                                                       not finite: no step, counted --^

Guarantees: the gradient does not depend on micro-batches, order or padding. An update in which nothing can have a
gradient (all advantages are 0) changes no weight, not even by momentum. A learner that is restored from a checkpoint
makes the same weights as one that was never stopped, to the bit where torch is deterministic.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import load_file, save_file
from torch import Tensor

from agent.engines.qwen3vl.checkpoint import PolicyModel, save_policy
from trainer.batches import FrameSource, TrainingSequence, micro_batches
from trainer.forward import Forward
from trainer.metrics import Reduced
from trainer.objectives import Objective

__all__ = ["Learner", "LearnerSettings"]

OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "learner.json"
_RNG = "rng.torch"


class LearnerSettings(BaseModel):
    """How weights move."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: float = Field(default=4e-4, gt=0)
    """Peak learning rate."""
    warmup_steps: int = Field(default=5, ge=0)
    """Updates over which it rises from 0."""
    decay_steps: int | None = Field(default=None, ge=1)
    """Updates, warm-up included, after which it has fallen to `final_lr`; None keeps it at its peak."""
    final_lr: float = Field(default=0.25, ge=0, le=1)
    """Share of the peak that is left at the end."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    micro_batch_tokens: int = Field(default=4096, ge=1)
    """Tokens that are run at once, padding included."""
    seed: int = 0


class Learner:
    """Trains one model with AdamW.

    Args:
        policy: its weights are changed in place.
        frames: gives the screenshots of training sequences.
        version: of the weights at the start; each update that moves them adds one.
    """

    def __init__(
        self, policy: PolicyModel, settings: LearnerSettings, *, frames: FrameSource, version: int = 0
    ) -> None:
        self.policy = policy
        self.settings = settings
        self.version = version
        self.step = 0
        """Updates so far, those that moved nothing included."""
        self.rng = random.Random(settings.seed)
        """For whoever chooses what is trained on; saved with the rest."""
        self._forward = Forward(policy, frames)
        self._parameters: dict[str, Tensor] = dict(policy.model.named_parameters())
        self._optimizer = torch.optim.AdamW(
            self._parameters.values(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay
        )

    def update(self, sequences: Sequence[TrainingSequence], objective: Objective) -> dict[str, float]:
        """One optimiser step on all sequences together; returns its metrics."""
        metrics = Reduced()
        denominators = objective.denominators(sequences)
        taught = [sequence for sequence in sequences if objective.teaches(sequence)]
        self._optimizer.zero_grad(set_to_none=True)
        for batch in micro_batches(taught, self.settings.micro_batch_tokens):
            outcome = self._forward(batch, temperature=objective.temperature)
            loss = objective.loss(self._forward, outcome, batch, denominators, metrics)
            loss.backward()  # type: ignore[no-untyped-call]
            metrics.sum("loss", float(loss.detach()))
        lr = self._lr()
        self.step += 1
        norm = self._clipped_norm()
        moved = bool(taught) and bool(torch.isfinite(norm))
        if moved:
            for group in self._optimizer.param_groups:
                group["lr"] = lr
            self._optimizer.step()
            self.version += 1
        metrics.sum("tokens", denominators.tokens)
        metrics.sum("sequences", len(sequences))
        metrics.sum("sequences_taught", len(taught))
        metrics.sum("skipped_nonfinite", bool(taught) and not moved)
        return {**metrics.values(), "grad_norm": float(norm), "lr": lr, "version": self.version}

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights, for `TensorWeights`."""
        return {name: tensor.detach().clone() for name, tensor in self.policy.model.state_dict().items()}

    def save(self, directory: Path, *, extra: dict[str, Any] | None = None) -> None:
        """Write model, optimiser, counters and random states; `CheckpointStore.save` makes them durable.

        Args:
            extra: JSON of the caller's own, given back by `restore`.
        """
        save_policy(self.policy, directory)
        tensors = {_RNG: torch.get_rng_state()}
        for name, parameter in self._parameters.items():
            for key, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value.detach().clone().contiguous()
        save_file(tensors, directory / OPTIMIZER_FILE)
        state = {
            "step": self.step,
            "version": self.version,
            "rng": self.rng.getstate(),
            "settings": self.settings.model_dump(mode="json"),
            "extra": extra or {},
        }
        (directory / STATE_FILE).write_text(json.dumps(state), "utf-8")

    def restore(self, directory: Path) -> dict[str, Any]:
        """Go on from a checkpoint; returns the caller's own part.

        Raises:
            ValueError: it was made with other settings, or of another model.
        """
        state = json.loads((directory / STATE_FILE).read_text("utf-8"))
        mine = self.settings.model_dump(mode="json")
        changed = [f"{k}: {state['settings'].get(k)} -> {mine[k]}" for k in mine if state["settings"].get(k) != mine[k]]
        if changed:
            raise ValueError(
                f"{directory} was made with other settings ({'; '.join(changed)}); go on with those or start a new run"
            )
        self._load_weights(directory)
        tensors = load_file(directory / OPTIMIZER_FILE)
        torch.set_rng_state(tensors.pop(_RNG))
        for name, parameter in self._parameters.items():
            own = {key.removesuffix(f"/{name}"): value for key, value in tensors.items() if key.endswith(f"/{name}")}
            if own:
                self._optimizer.state[parameter] = own
        version, internal, gauss = state["rng"]
        self.rng.setstate((version, tuple(internal), gauss))
        self.step, self.version = state["step"], state["version"]
        extra: dict[str, Any] = state["extra"]
        return extra

    def _load_weights(self, directory: Path) -> None:
        tensors: dict[str, Tensor] = {}
        for file in directory.glob("model*.safetensors"):
            tensors |= load_file(file)
        if self._parameters.keys() - tensors.keys():
            raise ValueError(
                f"{directory} holds another model: it lacks {min(self._parameters.keys() - tensors.keys())}"
            )
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(tensors[name])

    def _clipped_norm(self) -> Tensor:
        with_grad = [parameter for parameter in self._parameters.values() if parameter.grad is not None]
        return torch.nn.utils.clip_grad_norm_(with_grad, self.settings.max_grad_norm)

    def _lr(self) -> float:
        settings = self.settings
        if self.step < settings.warmup_steps:
            return settings.lr * (self.step + 1) / settings.warmup_steps
        if settings.decay_steps is None:
            return settings.lr
        span = max(1, settings.decay_steps - settings.warmup_steps)
        done = min(1.0, (self.step - settings.warmup_steps) / span)
        return settings.lr * (1 - done * (1 - settings.final_lr))
