"""One script per headline figure. `frontdesk bench NAME` runs `benchmarks/NAME.py` and keeps what it measured."""
