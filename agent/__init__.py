"""The harness around a policy: context, scripts, model clients, and one episode that becomes one trajectory."""

from agent.config import ConfigError, load_toml, parse_toml
from agent.context import Context, visible_count, visible_turns
from agent.episode import run_episode
from agent.errors import AgentError, GraderFailed, PolicyError, ReplyTimeout, ScriptFailed, SetupFailed
from agent.harness import Harness
from agent.policy import ContextTurn, Policy, PolicyReply, PolicyRequest
from agent.task import CheckResult, EpisodeTask, Grade

__all__ = [
    "AgentError",
    "CheckResult",
    "ConfigError",
    "Context",
    "ContextTurn",
    "EpisodeTask",
    "Grade",
    "GraderFailed",
    "Harness",
    "Policy",
    "PolicyError",
    "PolicyReply",
    "PolicyRequest",
    "ReplyTimeout",
    "ScriptFailed",
    "SetupFailed",
    "load_toml",
    "parse_toml",
    "run_episode",
    "visible_count",
    "visible_turns",
]
