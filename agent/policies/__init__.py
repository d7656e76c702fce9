"""Policies without a model: scripts, chance and nothing."""

from agent.policies.noop import AlwaysInfeasiblePolicy, NoopPolicy
from agent.policies.random_policy import RandomPolicy
from agent.policies.script import (
    ClickOn,
    ClickWindow,
    Do,
    SayAnswer,
    SayDone,
    SayInfeasible,
    ScriptStep,
    WaitActive,
    WaitWindow,
    parse_script,
    script_json,
)
from agent.policies.scripted import ScriptedPolicy

__all__ = [
    "AlwaysInfeasiblePolicy",
    "ClickOn",
    "ClickWindow",
    "Do",
    "NoopPolicy",
    "RandomPolicy",
    "SayAnswer",
    "SayDone",
    "SayInfeasible",
    "ScriptStep",
    "ScriptedPolicy",
    "WaitActive",
    "WaitWindow",
    "parse_script",
    "script_json",
]
