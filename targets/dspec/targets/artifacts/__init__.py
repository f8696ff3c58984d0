"""Builders: one file format each, made in one place, whoever ships it."""
