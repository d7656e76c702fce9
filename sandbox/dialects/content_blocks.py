"""A reply of content blocks, as Anthropic's API gives it: tool uses, texts and reasoning, with or without prose around.

::

    {"type": "tool_use", "id": ID, "name": TOOL, "input": {...}}
    {"type": "text", "text": TEXT}    {"type": "thinking", "thinking": TEXT}

Also read are a list of blocks, a whole message, and an object that is none of these: a tool's bare input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sandbox.actions import Action
from sandbox.dialects.json_text import Json, segments, split_thinking
from sandbox.dialects.protocol import ParseError, Reading, Rejected, result_text
from sandbox.dialects.replies import Called, Said, assemble

__all__ = ["read_blocks", "write_results"]


def read_blocks(text: str, call: Callable[[dict[str, Any]], list[Action]]) -> Reading:
    """Read a reply.

    Args:
        call: the actions of a block that is a tool use; raises ValueError for one that is none.

    Raises:
        Rejected: the reply is none.
    """
    thought, said = split_thinking(text)
    parts: list[Said | Called] = []
    for segment in segments(said):
        if isinstance(segment, Json):
            parts += [_part(block, call) for block in _blocks(segment.value)]
        else:
            parts.append(Said(text=segment.text))
    return assemble(parts, thought=thought, noun="tool use", ends_in_words=True)


def write_results(error: ParseError | str, tool_use_ids: Sequence[str]) -> str:
    """What went wrong, as a result for each tool use; in plain words where none has an id."""
    said = result_text(error)
    if not tool_use_ids:
        return said
    blocks = [{"type": "tool_result", "tool_use_id": each, "is_error": True, "content": said} for each in tool_use_ids]
    return json.dumps(blocks, ensure_ascii=False)


def _part(block: dict[str, Any], call: Callable[[dict[str, Any]], list[Action]]) -> Said | Called:
    kind = block.get("type")
    if kind in ("thinking", "redacted_thinking"):
        return Said(text=_text(block.get("thinking", "")), reasoning=True)
    if kind == "text":
        return Said(text=_text(block.get("text")))
    given_id = block.get("id")
    return Called(read=lambda: call(block), id=given_id if isinstance(given_id, str) else None)


def _blocks(value: Any) -> Iterator[dict[str, Any]]:
    """The content blocks in a JSON value: a message's, those of a list, or the value itself."""
    content = value.get("content") if isinstance(value, dict) and "type" not in value else None
    if isinstance(value, dict) and value.get("type") == "message":
        content = value.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for block in content if isinstance(content, list) else value if isinstance(value, list) else [value]:
        if not isinstance(block, dict):
            raise Rejected("a content block must be an object")
        yield block


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Rejected("text: must be a text")
    return value
