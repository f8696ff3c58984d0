"""The texts, as Jinja templates: Python, so that a changed one is a changed source to the store."""
