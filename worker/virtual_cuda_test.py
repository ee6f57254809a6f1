"""The virtual GPU: what code that says "cuda" asks of torch, and gets."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import virtual_cuda


def setUpModule() -> None:
    torch.set_num_threads(1)
    virtual_cuda.install(virtual_cuda.Target(90))


class Twice(torch.autograd.Function):
    """Allocates in its backward pass, as wrappers of kernels do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        two: torch.Tensor = torch.full(x.shape, 2.0, device=x.device)
        return two * gradients[0]


class VirtualCudaTest(unittest.TestCase):
    def setUp(self) -> None:
        self.mode = virtual_cuda.VirtualCuda()
        self.enterContext(self.mode)
        virtual_cuda.BackwardModes.modes = (self.mode,)
        self.addCleanup(setattr, virtual_cuda.BackwardModes, "modes", ())

    def test_a_backward_pass_allocates_on_the_gpu_too(self) -> None:
        for start in ("backward", "sum", "grad"):
            x = torch.ones(3, device="cuda", requires_grad=True)
            y: Any = Twice.apply(x)  # type: ignore[no-untyped-call]
            if start == "backward":
                y.backward(torch.ones(3, device="cuda"))
            elif start == "sum":
                y.sum().backward()
            else:
                (x.grad,) = torch.autograd.grad(y, (x,), grad_outputs=torch.ones(3, device="cuda"))
            assert x.grad is not None
            self.assertEqual(x.grad.tolist(), [2.0, 2.0, 2.0], start)

    def test_guards_streams_events_and_what_inductor_calls(self) -> None:
        cuda: Any = torch.cuda
        bindings: Any = torch._C
        with cuda._DeviceGuard(0), cuda.device(0), cuda.stream(cuda.Stream()):
            buffer = bindings._dynamo.guards._empty_strided_cuda((4, 2), (1, 4), torch.float16)
            self.assertEqual((buffer.shape, buffer.stride(), buffer.dtype), ((4, 2), (1, 4), torch.float16))
        self.assertEqual(bindings._cuda_getCurrentRawStream(0), 0)

    def test_the_generator_has_a_seed_and_an_offset(self) -> None:
        torch.manual_seed(7)
        cuda: Any = torch.cuda
        generator = cuda.default_generators[torch.cuda.current_device()]
        seed, offset = generator.get_state().view(torch.int64)
        self.assertEqual((int(seed), int(offset)), (7, 0))
        generator.set_state(torch.tensor([7, 16]).view(torch.uint8))
        self.assertEqual(int(generator.get_state().view(torch.int64)[1]), 16)

    def test_the_properties_that_launchers_read_are_there(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        for name in ("name", "multi_processor_count", "warp_size", "uuid", "total_memory", "L2_cache_size", "regs_per_multiprocessor"):
            self.assertTrue(hasattr(properties, name), name)
        self.assertEqual(torch.cuda.get_device_capability(), (9, 0))


if __name__ == "__main__":
    unittest.main()
