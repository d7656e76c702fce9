"""What makes desktops: `local` (on this machine, no engine needed) and `recorded` (played back)."""
