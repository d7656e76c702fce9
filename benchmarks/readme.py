"""Writes measured figures into README.md: `python -m benchmarks.readme`.

Between `<!-- BENCH.FIGURE -->` and `<!-- / -->` stands the number from benchmarks/results/BENCH.json. A test holds
README.md to what this writes, so no figure there is older than its result.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.record import HOUSE, RESULTS

__all__ = ["README", "with_figures"]

README = HOUSE / "README.md"
FIGURE = re.compile(r"<!-- (\w+)\.(\w+) -->.*?<!-- / -->")


def with_figures(text: str, results: Path = RESULTS) -> str:
    """The text with every marked figure as it was last measured.

    Raises:
        FileNotFoundError: a benchmark has no result.
        KeyError: a result has no such figure.
    """

    def replace(mark: re.Match[str]) -> str:
        return f"<!-- {mark[1]}.{mark[2]} -->{_shown(results / f'{mark[1]}.json', mark[2])}<!-- / -->"

    return FIGURE.sub(replace, text)


def _shown(path: Path, name: str) -> str:
    result = json.loads(path.read_text())
    if name == "machine":
        return f"{result['machine']['cores']} cores ({result['machine']['cpu']})"
    value: float = result["figures"][name]
    return f"{value:.2f}" if value < 1 else f"{value:.0f}"


if __name__ == "__main__":
    README.write_text(with_figures(README.read_text()))
