"""Runs the static rules over stored answers of models, to be read: how many are refused, by which rule, and a sample to judge.

usage: measure_rules.py --answers DIR [--program FILE] [--sample 100 --seed 1 [--rule RULE]] [--read FILE] [--out FILE.tsv]

Answers are the rows of every *.jsonl below DIR (the code in `predict`, `response`, `answer` or `output`) and every *.py. Only those
that parse and hold a kernel count. The entry point is what the task would call: the name in the row's instruction where it gives one,
else ModelNew, else the last function of the file from which a kernel can be reached and that no other function calls, tests left
out. --read writes the sampled answers with their findings, for a person; --out writes one line an answer that was sampled: file,
index, entry, rule, line. Nothing of an answer is run.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CODE_KEYS = ("predict", "response", "answer", "output")
ASKED_KEYS = ("instruction", "prompt", "query")
FENCE = re.compile(r"```(?:python|py|triton)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
WRAPPER = re.compile(r"Wrapper Entry Information:\s*(?:def\s+)?(?:torch\.)?(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\s*\(")
FINDING = re.compile(r"^.*?:(\d+):(\d+): (reject|suspicious|note) ([\w-]+): (.*)$")
HEADER = "file\tindex\tentry\trule\tline"


@dataclass
class Answer:
    file: str
    index: int
    source: str
    entry: str
    findings: list[tuple[int, str, str, str]] = field(default_factory=list)  # line, level, rule, message
    entry_found: bool = True

    def refusals(self) -> list[tuple[int, str, str, str]]:
        return [finding for finding in self.findings if finding[1] == "reject"]


def code_of(text: str) -> str:
    """The longest fenced block with a kernel, or the text itself."""
    text = text.rsplit("</think>", 1)[-1]
    blocks = [block for block in FENCE.findall(text) if "jit" in block]
    return max(blocks, key=len) if blocks else text


def is_jit(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        "jit" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def has_forward(definition: ast.ClassDef) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name in ("forward", "__call__") for node in definition.body)


def names_in(node: ast.AST) -> set[str]:
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def is_test(name: str) -> bool:
    return (
        re.search(r"test|bench|main|example|reference|torch_|_ref\b|check|validate|verify|demo", name.lower())
        is not None
    )


def choose_entry(tree: ast.Module, wanted: str | None) -> str:
    """What a task would call in this file."""
    bodies: dict[str, ast.AST] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and not has_forward(statement):
            continue
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and not is_jit(statement):
            bodies[statement.name] = statement
        elif (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            bodies[statement.targets[0].id] = statement.value
    if wanted in bodies:
        return str(wanted)
    if "ModelNew" in bodies:
        return "ModelNew"
    kernels = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_jit(node)}
    uses = {name: names_in(body) - {name} for name, body in bodies.items()}
    reaching = {name for name, used in uses.items() if used & kernels}
    while True:
        more = {name for name, used in uses.items() if used & reaching} - reaching
        if not more:
            break
        reaching |= more
    candidates = [name for name in bodies if name in reaching and not is_test(name)]
    called = {used for name in candidates for used in uses[name]}
    tops = [name for name in candidates if name not in called]
    others = [name for name in bodies if not is_test(name) and isinstance(bodies[name], ast.FunctionDef)]
    return (tops or candidates or others or ["ModelNew"])[-1]


def rows(folder: Path) -> Iterator[tuple[str, int, str, str]]:
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".py":
            yield name, 0, path.read_text(encoding="utf-8", errors="replace"), ""
        elif path.suffix == ".jsonl":
            with path.open(encoding="utf-8", errors="replace") as file:
                for index, line in enumerate(file):
                    row = json.loads(line)
                    text = next((str(row[key]) for key in CODE_KEYS if row.get(key)), "")
                    asked = next((str(row[key]) for key in ASKED_KEYS if row.get(key)), "")
                    yield name, index, text, asked


def read_answers(folder: Path, counts: collections.Counter[str]) -> list[Answer]:
    answers = []
    for file, index, text, asked in rows(folder):
        counts["answers"] += 1
        source = code_of(text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            counts["not Python"] += 1
            continue
        if not any(is_jit(node) for node in ast.walk(tree)):
            counts["without a kernel"] += 1
            continue
        wanted = WRAPPER.search(asked)
        answers.append(Answer(file, index, source, choose_entry(tree, wanted.group(1) if wanted else None)))
    return answers


def judge(program: str, answer: Answer) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(answer.source)
        file.flush()
        done = subprocess.run(
            [program, "rules", "check", file.name, "--entry", answer.entry], capture_output=True, text=True, timeout=60
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{answer.file} {answer.index}: {program} ended with {done.returncode}: {done.stderr}")
    answer.entry_found = " defines no `" not in done.stderr
    for line in done.stdout.splitlines():
        if found := FINDING.match(line):
            answer.findings.append((int(found.group(1)), found.group(3), found.group(4), found.group(5)))


def shown(answer: Answer) -> str:
    """An answer for a person to read: its findings, then the source with those lines marked."""
    marked = {finding[0] for finding in answer.findings if finding[1] != "note"}
    lines = [f"==== {answer.file} {answer.index} entry {answer.entry}"]
    lines += [
        f"  {level} {rule} line {line}: {message}" for line, level, rule, message in answer.findings if level != "note"
    ]
    lines += [
        f"{'>' if number in marked else ' '}{number:4} {text}"
        for number, text in enumerate(answer.source.splitlines(), 1)
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Run the static rules over stored answers and draw a sample of refusals to read."
    )
    parser.add_argument(
        "--answers", type=Path, required=True, help="folder of .jsonl files (a row an answer) or .py files"
    )
    parser.add_argument("--program", default="build/main/autotriton", help="the built program")
    parser.add_argument("--sample", type=int, default=0, help="how many refused answers to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rule", default="", help="draw only answers with a finding of this rule, at any level but note"
    )
    parser.add_argument("--read", type=Path, help="where the drawn answers go, for a person to read")
    parser.add_argument("--out", type=Path, help="where the list of drawn answers goes, as TSV")
    given = parser.parse_args(arguments)
    counts: collections.Counter[str] = collections.Counter()
    answers = read_answers(given.answers, counts)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda answer: judge(given.program, answer), answers))
    judged = [answer for answer in answers if answer.entry_found]
    refused = [answer for answer in judged if answer.refusals()]
    print(
        f"{counts['answers']} answers, {counts['not Python']} not Python, {counts['without a kernel']} without a kernel"
    )
    print(f"{len(answers)} judged, {len(answers) - len(judged)} without the entry point, {len(refused)} refused")
    fires: collections.Counter[tuple[str, str]] = collections.Counter()
    alone: collections.Counter[str] = collections.Counter()
    for answer in judged:
        fires.update({(rule, level) for _, level, rule, _ in answer.findings})
        if len(rules := {rule for _, _, rule, _ in answer.refusals()}) == 1:
            alone.update(rules)
    for (rule, level), number in sorted(fires.items(), key=lambda item: -item[1]):
        print(f"  {number:5} {level:10} {rule}" + (f" (alone in {alone[rule]})" if level == "reject" else ""))
    if given.sample == 0:
        return 0
    if given.rule:
        pool_of = [
            answer
            for answer in judged
            if any(rule == given.rule and level != "note" for _, level, rule, _ in answer.findings)
        ]
    else:
        pool_of = refused
    drawn = random.Random(given.seed).sample(pool_of, min(given.sample, len(pool_of)))
    if given.read:
        given.read.write_text("\n".join(shown(answer) for answer in drawn), encoding="utf-8")
    if given.out:
        lines = [HEADER]
        for answer in drawn:
            first = next(f for f in answer.findings if (f[2] == given.rule if given.rule else f[1] == "reject"))
            lines.append(f"{answer.file}\t{answer.index}\t{answer.entry}\t{first[2]}\t{first[0]}")
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
