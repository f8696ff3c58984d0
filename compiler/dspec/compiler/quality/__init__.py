"""How good the answers are, held against the labels of fixtures: of a bundle, and of PyTorch through the same pipeline."""
