"""Skew: the shipped pipeline held against the training-time code, over the fixtures and PyTorch's own answers to them.

A stage of its own, between capture and lowering: a change of the training code, or of a step after the model, runs this
again and captures nothing anew.
"""
