"""ExecuTorch: a `.pte` for the device, proved on this machine's kernels, and a runner for them."""
