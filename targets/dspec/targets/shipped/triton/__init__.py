"""What runs inside Triton's Python backend. Each model's folder holds a copy, and `model.py`, which is the server's way in.

calls   the steps, calling the model; alone    the model; before, after   the steps as parts of an ensemble
bridge  tensors in and out of the server, whatever numpy its stub was built for; rows    requests and answers as tensors
"""
