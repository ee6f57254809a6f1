"""Scales a task down so that Triton's interpreter can run it.

Sizes stand as integers in module-level assignments, `get_inputs` and `get_init_inputs`. One map is applied to equal
integers in all of them (so that shapes stay consistent), lowering every number above a cap to that cap, and the cap
walks down a ladder until inputs, outputs and parameters fit. Numbers below 5 are left alone: they are kernel sizes,
strides, dims.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

SMALLEST_SCALED = 5
LADDER = (512, 256, 128, 64, 32, 16, 8, 48, 24, 12, 6, 5)  # Powers of two first: kernels may rely on them.
ODD_LADDER = (37, 23, 13, 7, 5)
_SIZE_FUNCTIONS = ("get_inputs", "get_init_inputs")
_MAX_FOLDED = 1 << 40


class _FoldIntegers(ast.NodeTransformer):
    """Replaces arithmetic on integer literals by its result: `1024 * 16` is one size, not two."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = node.left, node.right
        if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
            return node
        if type(left.value) is not int or type(right.value) is not int:
            return node
        a, b = left.value, right.value
        value: int | None = None
        if isinstance(node.op, ast.Add):
            value = a + b
        elif isinstance(node.op, ast.Sub):
            value = a - b
        elif isinstance(node.op, ast.Mult):
            value = a * b
        elif isinstance(node.op, ast.FloorDiv) and b != 0:
            value = a // b
        elif isinstance(node.op, ast.Pow) and 0 <= b <= 40:
            value = a**b
        if value is None or abs(value) > _MAX_FOLDED:
            return node
        return ast.copy_location(ast.Constant(value), node)


class _MapIntegers(ast.NodeTransformer):
    def __init__(self, mapping: Callable[[int], int], changed: dict[int, int]) -> None:
        self._mapping = mapping
        self._changed = changed

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """A number below zero is no size: an axis, a bound, a label to ignore."""
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int:
            return node
        value = self._mapping(node.value)
        if value == node.value:
            return node
        self._changed[node.value] = value
        return ast.copy_location(ast.Constant(value), node)


def sizes(source: str) -> set[int]:
    """The integers of 5 and more that scaling could change."""
    found: dict[int, int] = {}
    rewrite(source, lambda value: value - 1 if value >= SMALLEST_SCALED else value, found)
    return set(found)


def rewrite(source: str, mapping: Callable[[int], int], changed: dict[int, int]) -> str:
    """`source` with `mapping` applied where sizes stand; `changed` receives each size and what it became."""
    tree = _FoldIntegers().visit(ast.parse(source))
    mapper = _MapIntegers(mapping, changed)
    for index, node in enumerate(tree.body):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            node.value = mapper.visit(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in _SIZE_FUNCTIONS:
            tree.body[index] = mapper.visit(node)
    return ast.unparse(ast.fix_missing_locations(tree))


def capped(cap: int) -> Callable[[int], int]:
    return lambda value: value if value <= cap or value < SMALLEST_SCALED else cap


def distinct(found: set[int], cap: int) -> Callable[[int], int] | None:
    """Sizes above `cap` become unequal smaller ones, the largest `cap` itself, so that a mixed-up stride shows. Powers of
    two stay powers of two where `cap` is one, and the others stay none: kernels may rely on it. None where there is
    nothing to keep apart or no room."""
    above = sorted((value for value in found if value > cap), reverse=True)
    if not above:
        return None
    power = cap & (cap - 1) == 0
    mapping: dict[int, int] = {}
    next_power, others = cap, 0
    for value in above:
        if value + 1 in mapping and (not power or value & (value - 1)):
            others += 1
            mapping[value] = mapping[value + 1] - 1  # A length and the bound of what counts it: randint(0, 91) beside 90.
        elif not power:
            mapping[value] = cap - 2 * len(mapping)
        elif value & (value - 1) == 0:
            mapping[value], next_power = next_power, next_power // 2
        else:
            others += 1
            mapping[value] = cap - (2 * others - 1 if value % 2 else max(2, cap // 8) * others)
    if min(mapping.values()) < SMALLEST_SCALED or len(set(mapping.values())) < len(mapping):
        return None
    return lambda value: mapping.get(value, value)


def candidates(source: str, ladder: tuple[int, ...]) -> Iterator[tuple[int, str, dict[int, int]]]:
    """Yields (cap, scaled source, changed sizes) from the largest cap down, unequal sizes kept unequal first where that
    can be; leaves out caps that change nothing."""
    found = sizes(source)
    seen: set[str] = set()
    for cap in ladder:
        for mapping in (distinct(found, cap), capped(cap)):
            if mapping is None:
                continue
            changed: dict[int, int] = {}
            text = rewrite(source, mapping, changed)
            if changed and text not in seen:
                seen.add(text)
                yield cap, text, changed


STRETCHED = (16384, 4096, 2048)


def _stretching(size: int, kept: int, small: int) -> Callable[[int], int]:
    """`size` becomes `kept`, every other size `small` at most."""
    others = capped(small)
    return lambda value: kept if value == size else others(value)


def stretched(source: str, changed: dict[int, int]) -> Iterator[list[tuple[str, dict[int, int]]]]:
    """For each size that was scaled down, longest first: sources in which it alone stays long (shorter ones follow) and the
    others are tiny. A kernel that covers a fixed block of a long row is right at small sizes and wrong here."""
    for size in sorted(changed, reverse=True):
        options: list[tuple[str, dict[int, int]]] = []
        for length in STRETCHED:
            kept = min(size, length)
            if kept <= 4 * changed[size] or any(kept == done for _, done in ((t, c.get(size)) for t, c in options)):
                continue
            for small in (8, 5):
                now: dict[int, int] = {}
                text = rewrite(source, _stretching(size, kept, small), now)
                options.append((text, {**now, size: kept}))
        if options:
            yield options
