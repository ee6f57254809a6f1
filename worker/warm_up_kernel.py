"""The kernel that a server runs or compiles once before it forks (warm_up.py)."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask, other=0.0), mask=mask)
