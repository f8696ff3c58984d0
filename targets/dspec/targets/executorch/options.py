"""Options of `runtime: executorch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspec.spec.catalogue import RuntimeEntry


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the program is lowered and run.

    Attributes:
        delegate: who computes what it can: `xnnpack`, or `none` for portable kernels alone; `auto` is xnnpack wherever it runs,
            which is not bare metal. The others are named by ExecuTorch itself, and refused here with what this version or
            this machine lacks for them.
        min_delegated: the least share of the model's arithmetic that the delegate must take, 0 to 1; below it, the build fails.
        threads: threads of the runner's pool; 0 stands for the cores granted.
    """

    delegate: Literal["auto", "xnnpack", "none", "coreml", "vulkan", "qualcomm", "ethos-u", "openvino"] = "auto"
    min_delegated: float = 0.0
    threads: int = 0


# ExecuTorch's portable kernels alone, without a thread pool or a delegate.
BARE = "baremetal-cortex-m"
ENTRY = RuntimeEntry(
    name="executorch",
    options=Options,
    needs_max=True,
    places=("host", "graph", "contract"),
    hardware=("host", "linux-x86_64", "linux-arm64", "android-arm64", "ios-arm64", BARE),
    summary="a .pte for phones and boards, proved on this machine's kernels, and a runner for them",
)
