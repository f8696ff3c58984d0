"""Facts → which candidate to commit to, why, and what would reverse it. Pure: no files, no clock, no spec."""
