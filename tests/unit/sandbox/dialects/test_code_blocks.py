"""Where code and the words WAIT, DONE and FAIL count in what a model writes around them."""

from __future__ import annotations

import pytest

from sandbox.actions import Action, Click, Done, Infeasible, Point, Press, TypeText, Wait
from sandbox.dialects import View, get_dialect

VIEW = View.unscaled(1920, 1080)
PYAUTOGUI = get_dialect("pyautogui")
CLICK = Click(point=Point(x=3, y=4))
CODE = "pyautogui.click(3, 4)"
WAIT = Wait(seconds=2)

FOUND: list[tuple[str, list[Action]]] = [
    # the special words alone
    ("DONE", [Done()]),
    ("DONE\n", [Done()]),
    ("  DONE.  ", [Done()]),
    ("Done", [Done()]),
    ("done!", [Done()]),
    ("**DONE**", [Done()]),
    ("`DONE`", [Done()]),
    ("FAIL", [Infeasible()]),
    ("Fail.", [Infeasible()]),
    ("WAIT", [WAIT]),
    ("wait", [WAIT]),
    ("```\nDONE\n```", [Done()]),
    ("```python\nFAIL\n```", [Infeasible()]),
    ("```DONE```", [Done()]),
    ("```DONE\n```", [Done()]),
    ("```python DONE```", [Done()]),
    ("WAIT\nDONE", [WAIT, Done()]),
    # in prose
    ("The task is finished. DONE", [Done()]),
    ("The task is finished. DONE.", [Done()]),
    ("The file cannot be found: FAIL", [Infeasible()]),
    ("The file is saved.\n\nDone.", [Done()]),
    ("The file is saved.\nDONE\nGoodbye.", [Done()]),
    ("It is saved.\n\n**DONE**\n", [Done()]),
    # with code
    (f"```python\n{CODE}\nDONE\n```", [CLICK, Done()]),
    (f"```python\n{CODE}\nDONE.\n```", [CLICK, Done()]),
    (f"```python\n{CODE}\n```\nDONE", [CLICK, Done()]),
    (f"```python\n{CODE}\n```\nThe task is finished. DONE", [CLICK, Done()]),
    (f"```python\n{CODE}\n```\nDone.", [CLICK]),
    (f"{CODE}\n'DONE'", [CLICK, Done()]),
    (f"{CODE}\n'Done with it'", [CLICK]),
    (f"WAIT\n```python\n{CODE}\n```", [WAIT, CLICK]),
    (f"{CODE}\nDONE", [CLICK, Done()]),
    (f"{CODE}\nDone.", [CLICK, Done()]),
    (f"{CODE}\nThe task is finished. DONE", [CLICK, Done()]),
    # fenced and unfenced code
    (CODE, [CLICK]),
    (f"```python\n{CODE}\n```", [CLICK]),
    (f"```\n{CODE}\n```", [CLICK]),
    (f"```Python3\r\n{CODE}\r\n```\r\n", [CLICK]),
    (f"```py {CODE}```", [CLICK]),
    (f"```{CODE}```", [CLICK]),
    (f"```python\n{CODE}", [CLICK]),
    (f"```python\n{CODE}```", [CLICK]),
    (f"First:\n```python\n{CODE}\n```\nThen:\n```python\n{CODE}\n```\nso.", [CLICK, CLICK]),
    (f"First:\n```python\n{CODE}\n```\nThen:\n```python\n{CODE}", [CLICK, CLICK]),
    (f"```python\n{CODE}\n```python\n{CODE}\n```", [CLICK, CLICK]),
    (f"1. Click:\n   ```python\n   {CODE}\n   {CODE}\n   ```", [CLICK, CLICK]),
    (f"I will click.\n{CODE}", [CLICK]),
    (f"I will click.\n\n{CODE}\n\nThis opens the menu.", [CLICK]),
    (f"I will click.\nimport pyautogui as pg\npg.click(3, 4)\n{CODE}", [CLICK, CLICK]),
    (f"Click twice.\nfor i in range(2):\n    {CODE}", [CLICK, CLICK]),
    (f"<think>Maybe DONE?\nDONE\n{CODE}</think>\n{CODE}", [CLICK]),
    (f"I could stop.</think>\n\n```python\n{CODE}\n```", [CLICK]),
    # fences and words inside of text to type
    ("pyautogui.write('```')", [TypeText(text="```")]),
    ("```python\npyautogui.write('```')\n```", [TypeText(text="```")]),
    ('```python\npyautogui.write("""\n```\nls\n```\n""")\n```', [TypeText(text="\n```\nls\n```\n")]),
    ('```python\npyautogui.write("""\n```\nls\n""")', [TypeText(text="\n```\nls\n")]),
    ('pyautogui.write("""a\nDONE.\nb""")', [TypeText(text="a\nDONE.\nb")]),
    ('```\npyautogui.write("""a\n   \nDone.""")\nDone.\n```', [TypeText(text="a\n   \nDone."), Done()]),
    ("pyautogui.write('DONE')\npyautogui.press('enter')", [TypeText(text="DONE"), Press(keys=("enter",))]),
]

NOT_FOUND = [
    ("I am done with the first step.", "there is no code"),
    ("The task is done.", "there is no code"),
    ("The task is done", "there is no code"),
    ("I should say DONE when it is finished.", "there is no code"),
    ("I will WAIT", "there is no code"),
    ("It is not DONE yet. I go on", "there is no code"),
    ("Done, the file is saved.", "there is no code"),
    ("wait\nLet me think.", "there is no code"),
    ("DONE and dusted", "is not supported"),
    ("UNDONE", "no action"),
    ("", "no action"),
    ("```python\n```", "no action"),
    ("```bash\nls\n```", "a `bash` block is not read"),
    ("```sh\nls\n```", "a `sh` block is not read"),
    ("```bash\nls", "a `bash` block is not read"),
    (f"```python\n{CODE}\n```\n```bash\nls\n```", "a `bash` block is not read"),
    ("```ls -l```", "a `ls` block is not read"),
    (f"<think>\n```python\n{CODE}\n```", "ends inside its thoughts"),
    (f"<think>I could\n{CODE}", "ends inside its thoughts"),
    (f"Hm.\n{CODE}\npyautogui.click(1, 2", "line 3: this cannot be read as Python"),
    (f"```python\n{CODE}\n\nx y\n```", "line 4: this cannot be read as Python: invalid syntax"),
    (f"```python\n{CODE}\n```\nAnd\n```python\nx y\n```", "line 6: "),
    (f"Hm.\n\n```python\n{CODE}\nfoo()\n```", "line 5: the name 'foo' is not known"),
    (f"Hm.\nif now:\n    {CODE}", "line 2: `if` is not supported"),
    (f"Hm.\nfoo(1)\n{CODE}", "line 2: the name 'foo' is not known"),
    (f"Hm.\n{CODE}\nwhile foo: {CODE}\n", "`while` is not supported"),
    ("```WAIT```\n" * 60, "more than 50 blocks"),
    (("```\n" + "x = 1\n" * 900 + "```\n") * 3, "or 1000 statements"),
    ("**DONE**\n" * 300, "repeated more than 200 times"),
]


@pytest.mark.parametrize(("text", "actions"), FOUND)
def test_a_form_of_reply_is_its_code_and_words(text: str, actions: list[Action]) -> None:
    turn = PYAUTOGUI.parse(text, VIEW)
    assert turn.error is None
    assert list(turn.actions) == actions


@pytest.mark.parametrize(("text", "part"), NOT_FOUND)
def test_prose_and_broken_code_are_errors(text: str, part: str) -> None:
    turn = PYAUTOGUI.parse(text, VIEW)
    assert turn.actions == ()
    assert part in str(turn.error)


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        (CODE, ""),
        (f"I will click.\n```python\n{CODE}\n```\nThere.", "I will click.\nThere."),
        (f"I will click.\n{CODE}\nThere.", "I will click.\nThere."),
        (f"<think>Click\nit.</think>{CODE}", "Click\nit."),
        ("The file is saved.\n\nDONE", "The file is saved."),
        ("The task is finished. DONE", "The task is finished. DONE"),
    ],
)
def test_prose_is_thought(text: str, thought: str) -> None:
    lines = PYAUTOGUI.parse(text, VIEW).thought.splitlines()
    assert [line for line in lines if line] == thought.splitlines()
