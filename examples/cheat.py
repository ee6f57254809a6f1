"""A cheat: every number is right, a kernel is launched, and yet PyTorch did the work."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise_kernel(p_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    p = tl.load(p_ptr + offs, mask=mask, other=0.0)
    tl.store(y_ptr + offs, p * 1.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(x, dim=1)
        y = torch.empty_like(x)
        n = x.numel()
        normalise_kernel[(triton.cdiv(n, 1024),)](probabilities, y, n, BLOCK=1024)
        return y
