"""The server's log in words: lines as tritonserver 2.51 wrote them."""

from __future__ import annotations

import pytest

from dspec.targets.triton.log import causes, matters, model_seconds

AT = 'E1201 04:13:23.240296 13632 model_lifecycle.cc:642] "'
POLL = 'E1201 04:13:23.240296 13632 model_repository_manager.cc:1460] "'


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (AT + r"failed to load 'toy' version 1: Internal: RuntimeError: no such file\n\nAt:\n  /r/toy/1/dspec_bundle/engine.py(34): "
         r'open_engine\n  /r/toy/1/model.py(26): initialize\n"',
         "toy does not load: RuntimeError: no such file (engine.py:34, in open_engine)"),
        (AT + r"failed to load 'toy' version 1: Internal: ModuleNotFoundError: No module named 'numpy'\n\nAt:\n  <frozen importlib>(241): x\n"
         r'  /r/toy/1/model.py(7): <module>\n"',
         "toy does not load: ModuleNotFoundError: No module named 'numpy' (model.py:7, in <module>)"),
        (AT + "failed to load 'toy' version 3: Invalid argument: unable to find backend library for backend 'onnxruntime'\"",
         "toy does not load: unable to find backend library for backend 'onnxruntime'"),
        (POLL + "Poll failed for model directory 'other': Invalid argument: unexpected directory name 'other' for model 'toy.model'\"",
         "other: unexpected directory name 'other' for model 'toy.model'"),
        (POLL + 'Invalid argument: in ensemble toy, ensemble tensor image: inconsistent shape"',
         "ensemble toy: ensemble tensor image: inconsistent shape"),
    ],
)  # fmt: skip
def test_a_cause_in_one_line(line: str, says: str) -> None:
    assert causes(["I1201 04:13:23.233220 13643 pb_stub.cc:298] noise", line, "+-----+", line]) == (says,)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('I1201 04:07:44.798798 10261 model_lifecycle.cc:472] "loading: exp:1"', False),
        ("Error: Failed to initialize NVML", False),
        ('W1201 04:07:47.076660 10261 metrics.cc:798] "DCGM unable to start: DCGM initialization error"', False),
        ('E1201 04:07:44.797028 10261 server.cc:241] "CudaDriverHelper has not been initialized."', False),
        ("| exp   | 1       | READY  |", False),
        ("+-------+---------+--------+", False),
        ("", False),
        ("a word that a model printed", True),
        ('W1201 04:07:47.076660 10261 x.cc:798] "the queue is full"', True),
    ],
)
def test_what_people_want_to_read(line: str, wanted: bool) -> None:
    assert matters(line) is wanted


def test_how_long_each_model_took() -> None:
    lines = [
        'I1201 23:59:59.500000 1 model_lifecycle.cc:472] "loading: toy.model:3"',
        "I1201 00:00:02.000000 1 model_lifecycle.cc:839] \"successfully loaded 'toy.model'\"",
    ]
    assert model_seconds(lines) == {"toy.model": 2.5}
