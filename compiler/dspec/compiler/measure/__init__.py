"""Runs staged bytes in a clean process, as a caller would, and writes down numbers. No limit is known here."""
