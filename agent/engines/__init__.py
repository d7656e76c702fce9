"""Policy engines: what samples tokens from weights that a trainer changes."""

from agent.engines.protocol import (
    AdapterWeights,
    DirectoryWeights,
    GenerateRequest,
    GenerateResult,
    ImageRef,
    PlaceholderSpan,
    PolicyEngine,
    ScoreRequest,
    ScoreResult,
    TensorWeights,
    TransferWeights,
    VersionSpan,
    Weights,
)

__all__ = [
    "AdapterWeights",
    "DirectoryWeights",
    "GenerateRequest",
    "GenerateResult",
    "ImageRef",
    "PlaceholderSpan",
    "PolicyEngine",
    "ScoreRequest",
    "ScoreResult",
    "TensorWeights",
    "TransferWeights",
    "VersionSpan",
    "Weights",
]
