"""The runtime `triton`: a model repository that a stock server loads."""
