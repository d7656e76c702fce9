"""Recording a bundle's examples from real runs: evidence of the start state, and of what the oracle leaves."""

from __future__ import annotations

from agent.errors import SetupFailed
from agent.harness import Harness
from sandbox.actions import Done
from sandbox.desktop import Desktop
from sandbox.errors import DesktopError
from sandbox.hub import Lender
from verigen.assets import Assets
from verigen.bundle import Bundle, Example, Examples
from verigen.errors import BundleError
from verigen.gates.bench import Bench

__all__ = ["record_examples"]


async def record_examples(bundle: Bundle, assets: Assets, hub: Lender, *, harness: Harness | None = None) -> Bundle:
    """Run a bundle's setup and its oracle on fresh desktops and keep the evidence that its checks read.

    Returns:
        The bundle with examples in it, under its new id. Save it with `save_bundle`.

    Raises:
        BundleError: the setup fails, or the oracle does not score 1.
        DesktopError: the desktops failed, every time.
    """
    bench = Bench(bundle=bundle, assets=assets, hub=hub, harness=harness or Harness())

    async def record(desktop: Desktop, which: str) -> Example:
        try:
            await bench.runner.prepare(desktop)
        except SetupFailed as error:
            raise BundleError(f"bundle {bundle.task.name!r}: {error}") from error
        if which == "initial":
            grade = await bench.runner.grade(desktop, Done())
            return Example(evidence=grade.evidence, final=Done())
        run = await bench.run_script(desktop, bundle.oracle, name="oracle")
        if run.score != 1.0 or run.evidence is None:
            raise BundleError(f"bundle {bundle.task.name!r}: the oracle does not score 1: {run.reason}")
        return Example(evidence=run.evidence, final=run.final)

    reports = await bench.each("examples", ("initial", "golden"), record, note=lambda which, example: which)
    for report in reports:
        if report.value is None:
            raise DesktopError(f"bundle {bundle.task.name!r}: {report.failures[-1]}")
    initial, golden = (report.value for report in reports)
    assert initial is not None
    assert golden is not None
    return bundle.model_copy(update={"examples": Examples(golden=golden, initial=initial)})
