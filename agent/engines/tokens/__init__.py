"""Text, screenshots and replies as a policy's tokens. Nothing here needs torch."""

from agent.engines.tokens.chat import ChatFormat, Tokenizer
from agent.engines.tokens.formats import CompactFormat, PolicyFormat
from agent.engines.tokens.grammar import Grammar, compact_grammar
from agent.engines.tokens.images import Grid, ImagePlan, compact_ids, expand_ids
from agent.engines.tokens.replies import decode_reply, encode_reply
from agent.engines.tokens.stream import Prompt, TokenStream
from agent.engines.tokens.vocabulary import VOCABULARY_FILE, Vocabulary
from agent.engines.tokens.words import decode_text, encode_text

__all__ = [
    "VOCABULARY_FILE",
    "ChatFormat",
    "CompactFormat",
    "Grammar",
    "Grid",
    "ImagePlan",
    "PolicyFormat",
    "Prompt",
    "TokenStream",
    "Tokenizer",
    "Vocabulary",
    "compact_grammar",
    "compact_ids",
    "decode_reply",
    "decode_text",
    "encode_reply",
    "encode_text",
    "expand_ids",
]
