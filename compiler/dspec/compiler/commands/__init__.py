"""One module per command: `run(options) → exit code`."""
