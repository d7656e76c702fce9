"""The gates that a bundle passes to be admitted, one file each (`gN_*.py`), and what they share.

`lint`, `logic` and `patterns` read a bundle for G0; `mutants` and `alter*` change evidence for G1; `bench`, `trial` and
`fingerprint` work on desktops for the others. `verigen.verify` runs them in order.
"""
