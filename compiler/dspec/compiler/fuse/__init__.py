"""Fusing: the captured program with the steps next to it, and the reference of the path that is not fused.

program    Program → Program: the steps' twins around it, exported again
reference  Reference → Reference: the shipped steps, item by item, around PyTorch's own answers
"""
