"""What a server does once before it forks, so that no job has to: first uses that import, parse or look up something."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch


def shapes() -> None:
    """Tensors without memory are Python code in torch, imported at first use."""
    with torch.device("meta"), torch.no_grad():
        x = torch.empty(2, 3, 8, 8)
        torch.empty_like(x).contiguous().view(-1).to(torch.float16)
        functional = torch.nn.functional
        functional.relu(torch.nn.Conv2d(3, 4, 3)(x))
        functional.max_pool2d(x, 2), functional.avg_pool2d(x, 2), functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)
        functional.layer_norm(x, (8,)), functional.group_norm(x, 3), functional.softmax(x, -1), functional.gelu(x)
        torch.nn.Linear(8, 4)(x).sum(-1), x.mean(1), x.amax(2), x.cumsum(1), torch.matmul(x, x), x.argmax(1), x + x * 2


def reference() -> None:
    """One small task through the oracle's own steps."""
    import oracle

    source = (
        "import torch, torch.nn as nn\n"
        "class Model(nn.Module):\n"
        "    def __init__(self, n):\n        super().__init__()\n        self.fc = nn.Linear(n, n)\n        self.norm = nn.LayerNorm(n)\n"
        "    def forward(self, x):\n        return torch.softmax(self.norm(self.fc(x)), -1)\n"
        "def get_inputs():\n    return [torch.randn(6, 40)]\n"
        "def get_init_inputs():\n    return [40]\n"
    )
    judge = oracle.Oracle()
    memory = os.memfd_create("warm-up", os.MFD_CLOEXEC)
    try:
        with torch.no_grad():
            judge.open({"source": source, "kind": "module", "entry": "Model", "run_seconds": 20, "max_elements": 60000, "shapes": "both"})
            judge.init({"variant": "original", "seed": 1, "weight_seed": 2}, memory)
            for index, inputs in enumerate(("plain", "shifted", "scaled", "heavy-tailed", "half-zero")):
                record = judge.trial({"variant": "original", "inputs": inputs, "seed": 3, "run_seed": 4, "index": index}, memory)
                bounds = [[1e-3, 1e-3] for _ in record["leaves"]]
                for subject in ("zeros", "mean", "input", "other-inputs", "other-weights"):
                    judge.compare({"index": index, "subject": subject, "tolerances": bounds}, [])
    finally:
        os.close(memory)


def interpret() -> None:
    """One launch through the interpreter."""
    import interpreter_mends
    import warm_up_kernel

    kernel: Any = warm_up_kernel.double
    x, y = torch.ones(40), torch.empty(40)
    run = interpreter_mends.GridRun(kernel.rewrite(), kernel.fn, kernel.arg_names, (1,), []).prepare(x, y, 40, BLOCK=64)
    run()
    if not torch.equal(y, 2 * x):
        raise RuntimeError("the interpreter does not work here: a kernel that doubles did not")


def compile_once() -> None:
    """One compile: loads dialects, finds ptxas, fills Triton's own caches of facts."""
    import compile_launches
    import warm_up_kernel

    compiler = compile_launches.Compiler(90)
    restore = compiler.install()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        x = torch.ones(64)
        warm_up_kernel.double[(1,)](x, x, 40, BLOCK=64)
        del os.environ["TRITON_CACHE_DIR"]
    if len(compiler.results) != 1 or compiler.results[0].problem:
        raise RuntimeError(f"Triton does not compile here: {compiler.results}")
    restore()
