"""What an accessibility tree says lies where on a screenshot, and the labels that a model learns to point from.

Accessibility is the desktop's own word and is only ever a teacher's here: no policy sees it when it acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary, encode_text
from agent.policy import Policy, PolicyReply, PolicyRequest
from agent.shown import is_showing
from sandbox.desktop import A11yNode, Want

__all__ = [
    "Bins",
    "GroundingLabel",
    "Widget",
    "WidgetRecorder",
    "bins_of",
    "fitting_name",
    "grounding_labels",
    "visible_widgets",
    "widget_at",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Widget:
    """A named thing on a screenshot."""

    name: str
    left: int
    """Pixels of the screenshot as shown, as all four."""
    top: int
    right: int
    """Not included."""
    bottom: int
    """Not included."""

    @property
    def center(self) -> tuple[int, int]:
        """The middle pixel."""
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Bins:
    """The coordinate tokens that point into the middle of a widget; any of them is right."""

    x: range
    """Ids, never empty."""
    y: range


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundingLabel:
    """What one token of an image shows."""

    index: int
    """Of the token within its image."""
    name: int
    """The first token of the widget's name."""
    bins: Bins


def visible_widgets(roots: Iterable[A11yNode], screen: tuple[int, int], shown: tuple[int, int]) -> tuple[Widget, ...]:
    """The named nodes that show and hold no other such node, cut to the screen.

    Args:
        screen: width and height of the desktop, in whose pixels nodes are placed.
        shown: width and height of the screenshot as the policy sees it.
    """
    found: list[Widget] = []
    for root in roots:
        _collect(root, screen, shown, found)
    return tuple(found)


def bins_of(widget: Widget, vocabulary: Vocabulary) -> Bins:
    """The bins of the middle half of a widget, either way; at least the bin of its middle pixel."""
    x, y = widget.center
    return Bins(
        x=_inner(vocabulary.x, x, widget.right - widget.left),
        y=_inner(vocabulary.y, y, widget.bottom - widget.top),
    )


def widget_at(widgets: Sequence[Widget], x: int, y: int) -> Widget | None:
    """The smallest widget over a pixel."""
    over = [each for each in widgets if each.left <= x < each.right and each.top <= y < each.bottom]
    return min(over, key=lambda each: (each.right - each.left) * (each.bottom - each.top), default=None)


def grounding_labels(
    widgets: Sequence[Widget], vocabulary: Vocabulary, plan: ImagePlan, shown: tuple[int, int]
) -> tuple[GroundingLabel, ...]:
    """For every image token that a widget reaches into, the one that covers most of it.

    Args:
        shown: width and height of the screenshot, pixels; its pixels must be those that the encoder sees.
    """
    assert plan.fit == "pad", "a resized picture has other pixels"
    columns = plan.size(*shown)[0] // plan.factor
    covered: dict[int, tuple[int, Widget]] = {}
    for widget in widgets:
        assert 0 <= widget.left < widget.right <= shown[0], "widgets are cut to the screenshot"
        assert 0 <= widget.top < widget.bottom <= shown[1], "widgets are cut to the screenshot"
        for row in range(widget.top // plan.factor, (widget.bottom - 1) // plan.factor + 1):
            for column in range(widget.left // plan.factor, (widget.right - 1) // plan.factor + 1):
                area = _overlap(widget, column * plan.factor, row * plan.factor, plan.factor)
                index = row * columns + column
                if area > covered.get(index, (0, widget))[0]:
                    covered[index] = area, widget
    labels = []
    for index, (_, widget) in sorted(covered.items()):
        name = encode_text(vocabulary, widget.name)[0]
        labels.append(GroundingLabel(index=index, name=name, bins=bins_of(widget, vocabulary)))
    return tuple(labels)


class WidgetRecorder:
    """Runs another policy and keeps what lay on each screenshot that it saw.

    Args:
        policy: any; the recorder takes its name and hash, and also closes it.
    """

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.hash = policy.hash
        self.wants: tuple[Want, ...] = tuple(dict.fromkeys((*policy.wants, "a11y")))
        self.widgets: dict[str, tuple[Widget, ...]] = {}
        """By the screenshot's name in trajectories."""
        self._policy = policy

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """The other policy's reply."""
        frame, shown = request.observation.frame, request.turns[-1].frame
        assert frame is not None, "an episode always observes the screenshot"
        assert shown is not None, "the newest screenshot is always visible"
        roots = request.observation.a11y or ()
        size = shown.width, shown.height
        self.widgets[frame.sha256] = visible_widgets(roots, (frame.width, frame.height), size)
        return await self._policy.reply(request)

    async def close(self) -> None:
        """Close the other policy."""
        await self._policy.close()


def fitting_name(form: CompactFormat, name: str, max_tokens: int) -> str:
    """As many of the first words of a name as fit into so many tokens; empty where the first does not."""
    words = name.split()
    while words and len(encode_text(form.vocabulary, " ".join(words))) > max_tokens:
        words.pop()
    return " ".join(words)


def _collect(node: A11yNode, screen: tuple[int, int], shown: tuple[int, int], found: list[Widget]) -> None:
    before = len(found)
    for child in node.children:
        _collect(child, screen, shown, found)
    name = " ".join(node.name.split())
    if len(found) > before or not name or not is_showing(node):
        return
    bounds = node.bounds
    assert bounds is not None
    x, y = shown[0] / screen[0], shown[1] / screen[1]
    left, top = max(0, round(bounds.x * x)), max(0, round(bounds.y * y))
    right = min(shown[0], round((bounds.x + bounds.width) * x))
    bottom = min(shown[1], round((bounds.y + bounds.height) * y))
    if left < right and top < bottom:
        found.append(Widget(name=name, left=left, top=top, right=right, bottom=bottom))


def _inner(bin_of: Callable[[int], int], middle: int, side: int) -> range:
    return range(bin_of(middle - side // 4), bin_of(middle + side // 4) + 1)


def _overlap(widget: Widget, x: int, y: int, side: int) -> int:
    width = min(widget.right, x + side) - max(widget.left, x)
    height = min(widget.bottom, y + side) - max(widget.top, y)
    return max(0, width) * max(0, height)
