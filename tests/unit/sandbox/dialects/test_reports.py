"""What public agent stacks are reported to get wrong, row by row, read right here in every dialect it concerns."""

from __future__ import annotations

import pytest

from sandbox.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    Infeasible,
    KeyDown,
    Point,
    Press,
    Scroll,
    TypeText,
    Wait,
)
from sandbox.dialects import DIALECTS, View, get_dialect

VIEW = View.unscaled(1000, 1000)
AT = Point(x=10, y=20)
TO = Point(x=12, y=14)

READ: list[tuple[str, str, str, list[Action]]] = [
    (
        "6: scrolling is inverted",
        "openai",
        '{"type": "scroll", "x": 10, "y": 20, "scroll_y": 120}',
        [Scroll(point=AT, dy=-1)],
    ),
    ("6", "qwen3", '{"action": "scroll", "pixels": 120}', [Scroll(dy=1)]),
    ("6", "computer13", '{"action_type": "SCROLL", "dy": 1}', [Scroll(dy=1)]),
    ("6", "pyautogui", "pyautogui.scroll(1)", [Scroll(dy=1)]),
    ("6", "uitars", "scroll(direction='up')", [Scroll(dy=5)]),
    (
        "7: scrolling and dragging fail",
        "anthropic",
        '{"action": "scroll", "coordinate": [10, 20], "scroll_direction": "up", "scroll_amount": 1}',
        [Scroll(point=AT, dy=1)],
    ),
    (
        "7",
        "anthropic",
        '{"action": "left_click_drag", "start_coordinate": [10, 20], "coordinate": [12, 14]}',
        [Drag(path=(AT, TO))],
    ),
    ("8: kinds of click are unknown", "uitars", "left_double(start_box='(10,20)')", [Click(point=AT, clicks=2)]),
    ("8", "uitars", "right_single(start_box='(10,20)')", [Click(point=AT, button="right")]),
    ("13: Return has no key", "qwen3", '{"action": "key", "keys": ["Return"]}', [Press(keys=("enter",))]),
    ("13", "anthropic", '{"action": "key", "text": "enter"}', [Press(keys=("enter",))]),
    ("15: aliases are unknown", "qwen3", '{"action": "key", "keys": ["command", "a"]}', [Press(keys=("super", "a"))]),
    ("15", "uitars", "hotkey(key='cmd+a')", [Press(keys=("super", "a"))]),
    ("15", "pyautogui", "pyautogui.press('win')", [Press(keys=("super",))]),
    ("15", "openai", '{"type": "keypress", "keys": ["arrowdown"]}', [Press(keys=("down",))]),
    ("23: tags around a point", "uitars", "click(start_box='<|box_start|>(10,20)<|box_end|>')", [Click(point=AT)]),
    ("27: a chord falls apart", "openai", '{"type": "keypress", "keys": ["CTRL", "A"]}', [Press(keys=("ctrl", "a"))]),
    (
        "28: the wheel",
        "openai",
        '{"type": "click", "button": "wheel", "x": 10, "y": 20}',
        [Click(point=AT, button="middle")],
    ),
    ("28", "openai", '{"type": "drag", "path": [{"x": 10, "y": 20}, {"x": 12, "y": 14}]}', [Drag(path=(AT, TO))]),
    (
        "29: back_click",
        "anthropic",
        '{"action": "back_click", "coordinate": [10, 20]}',
        [Click(point=AT, button="back")],
    ),
    ("29", "anthropic", '{"action": "forward_click"}', [Click(button="forward")]),
    ("29", "anthropic", '{"action": "press_enter"}', [Press(keys=("enter",))]),
    ("29", "anthropic", '{"actions": [{"action": "left_click"}, {"action": "wait"}]}', [Click(), Wait()]),
    ("41: the words", "pyautogui", "DONE.", [Done()]),
    ("41", "pyautogui", "Done", [Done()]),
    ("41", "pyautogui", "The task is finished. DONE", [Done()]),
    ("41", "pyautogui", "pyautogui.click(10,20)", [Click(point=AT)]),
    ("41", "pyautogui", "```python\npyautogui.click(10,20)", [Click(point=AT)]),
    ("41", "pyautogui", "pyautogui.write('a;b')", [TypeText(text="a;b")]),
    (
        "41",
        "pyautogui",
        "for i in range(2):\n  pyautogui.press('tab');  time.sleep(1)",
        [Press(keys=("tab",)), Wait(seconds=1)] * 2,
    ),
    (
        "41: the code as a command",
        "pyautogui",
        '{"command": "import pyautogui\\npyautogui.click(10, 20)"}',
        [Click(point=AT)],
    ),
    ("42: the ten forms", "uitars", "click(start_box='[8,10,12,30]')", [Click(point=AT)]),
    ("42", "uitars", 'type(content="it\'s")', [TypeText(text="it's")]),
    ("42", "uitars", "type(content='line1\\nline2')", [TypeText(text="line1\nline2")]),
    ("42", "uitars", "type(content='python main\\\\n')", [TypeText(text="python main\n")]),
    ("42", "uitars", "type(content='C:\\\\new')", [TypeText(text="C:\\new")]),
    ("42", "uitars", "wait()", [Wait(seconds=5)]),
    ("42", "uitars", "press(key='a')", [Press(keys=("a",))]),
    ("42", "uitars", "hotkey(key='ctrl+c')", [Press(keys=("ctrl", "c"))]),
    ("42", "uitars", "Action: wait()\nAction: press(key='a')", [Wait(seconds=5), Press(keys=("a",))]),
    ("42", "uitars", "call_user()", [Infeasible(reason="the model hands over to the user")]),
    ("45: a failure is taken for done", "qwen3", '{"action": "terminate", "status": "failure"}', [Infeasible()]),
    ("45", "qwen3", '{"action": "triple_click", "coordinate": [10, 20]}', [Click(point=AT, clicks=3)]),
    ("45", "qwen3", '{"action": "hscroll", "pixels": -120}', [Scroll(dx=-1)]),
    ("45", "qwen3", '{"action": "answer", "text": "42"}', [Answer(text="42")]),
    ("a mark in a thought", "anthropic", "<think>[INFEASIBLE]</think>DONE", [Done()]),
    (
        "a mark in a thought",
        "qwen3",
        '<think>[INFEASIBLE]</think>{"action": "terminate", "status": "success"}',
        [Done()],
    ),
    ("a mark in a thought", "uitars", "Thought: [INFEASIBLE]\nAction: finished()", [Done()]),
    ("a mark in a thought", "compact", "# [INFEASIBLE]\ndone", [Done()]),
    (
        "a thought's end in a text",
        "openai",
        'I type it. {"type": "type", "text": "</think>"}',
        [TypeText(text="</think>")],
    ),
    ("keys by themselves", "uitars", "keydown(key='ctrl')", [KeyDown(key="ctrl")]),
]

REFUSED = [
    ("11: eval", "qwen3", '{"action": "left_click", "coordinate": "__import__(\'os\').getcwd()"}', "coordinate: "),
    ("11", "uitars", "click(start_box='__import__(\"os\").getcwd()')", "start_box: "),
    ("11", "pyautogui", "pyautogui.click(eval('1'), 2)", "the name 'eval' is not known"),
    ("17: malformed arguments", "openai", '{"type": "click", "x": 1', "this is not JSON"),
    ("17", "qwen3", '<tool_call>{"name": "computer_use", "arguments": null}</tool_call>', "arguments: "),
    ("22: no coordinates", "uitars", "click(start_box='=')", "start_box: "),
    ("23: a broken call", "uitars", "Action: click>point>point>1 2", "there must be a call"),
    ("23", "uitars", "scroll(start_box='(1,2)', end_box='(3,4)')", "direction: "),
    ("24: a null coordinate", "anthropic", '{"action": "left_click", "coordinate": null}', "coordinate: "),
    ("24", "openai", '{"type": "click", "x": null, "y": 1}', "x: "),
    (
        "29: other tools' actions",
        "anthropic",
        '{"action": "navigate", "text": "a.b"}',
        "type the address into the browser",
    ),
    ("29", "anthropic", '{"action": "open_web_browser"}', "open_web_browser is not offered"),
    ("29", "anthropic", '{"actions": [5]}', "actions: each must be an object"),
    ("41: another language", "pyautogui", "```bash\nls\n```", "a `bash` block is not read"),
    ("41", "pyautogui", '{"command": 5}', "a dictionary is not supported"),
    ("42: outside the screen", "uitars", "click(start_box='(-5,10)')", "start_box: "),
    ("42", "uitars", "click(start_box='(5000,10)')", "start_box: "),
]


@pytest.mark.parametrize(("row", "name", "text", "actions"), READ)
def test_a_reported_form_is_read_right(row: str, name: str, text: str, actions: list[Action]) -> None:
    # UI-TARS counts the pixels of a picture resized to multiples of 28
    turn = get_dialect(name).parse(text, View.unscaled(980, 980) if name == "uitars" else VIEW)
    assert turn.error is None
    assert list(turn.actions) == actions


@pytest.mark.parametrize(("row", "name", "text", "part"), REFUSED)
def test_a_reported_mistake_is_refused_by_name(row: str, name: str, text: str, part: str) -> None:
    turn = get_dialect(name).parse(text, VIEW)
    assert turn.actions == ()
    assert part in str(turn.error)


@pytest.mark.parametrize("name", DIALECTS)
def test_up_is_up_in_every_dialect(name: str) -> None:
    dialect = get_dialect(name)
    if name == "anthropic-20241022":
        return  # that version has no scroll
    for action in (Scroll(dy=5), Scroll(dy=-5), Scroll(dx=5), Scroll(dx=-5)):
        assert dialect.parse(dialect.render(action, VIEW), VIEW).actions == (action,)
