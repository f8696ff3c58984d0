"""Which architectures build and prove: `python -m tests.coverage` prints the table."""
