"""Drawn worlds for benchmarks that need no desktop."""
