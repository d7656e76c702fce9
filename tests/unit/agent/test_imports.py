"""What importing a package costs: model servers, image code and tensors come in only where they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(module: str) -> set[str]:
    """The modules that importing this one loads, in a fresh interpreter."""
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("module", "kept_out"),
    [
        ("agent", {"aiohttp", "torch", "PIL", "sqlmodel"}),
        ("agent.engines", {"aiohttp", "torch"}),
        ("agent.engines.tokens", {"torch", "transformers", "PIL"}),
        ("agent.policies.engine_policy", {"torch", "transformers"}),
        ("evals", {"aiohttp", "torch", "PIL"}),
        ("frontier", {"pydantic", "torch", "sandbox", "agent"}),
        ("trainer.segments", {"pydantic", "torch", "sandbox", "agent"}),
    ],
)
def test_imports_are_light(module: str, kept_out: set[str]) -> None:
    assert kept_out & loaded_by(module) == set()


def test_the_list_of_loaded_modules_is_real() -> None:
    assert {"pydantic", "agent.harness"} <= loaded_by("agent")
