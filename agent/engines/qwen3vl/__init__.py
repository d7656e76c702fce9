"""Qwen3-VL models, tiny or published. Everything here but `settings` needs torch and transformers."""
