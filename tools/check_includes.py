#!/usr/bin/env python3
"""Checks who includes what under src/.

Each room (a folder of src/) may include headers of its own and of the rooms that its CMakeLists.txt names in DEPS,
directly or through them, and of those only what PUBLIC_HEADERS lists. A public header may not include a third-party
library whose types we keep out of signatures, nor a header of ours that is not public. No room needs itself.

    tools/check_includes.py [--root FOLDER]      prints each offence as file:line: sentence; exit 1 if there is one
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
PRIVATE_LIBRARIES = ("nlohmann/", "CLI/", "tree_sitter/", "spdlog/", "fmt/", "toml++/", "torch/", "ATen/", "c10/", "boost/", "curl/", "hiredis/")
KEYWORDS = {"PUBLIC_HEADERS", "SOURCES", "TESTS", "DEPS", "LINKS"}


@dataclass
class Room:
    """What a room's CMakeLists.txt declares."""

    name: str
    deps: list[str] = field(default_factory=list)
    public_headers: set[str] = field(default_factory=set)


def read_room(folder: Path) -> Room:
    room = Room(folder.name)
    text = re.sub(r"#.*", "", (folder / "CMakeLists.txt").read_text(encoding="utf-8"))
    for name, arguments in re.findall(r"autotriton_library\(\s*(\w+)([^)]*)\)", text):
        if name != folder.name:
            raise SystemExit(f"{folder}/CMakeLists.txt: the library is called {name}, the folder {folder.name}")
        keyword = ""
        for word in arguments.split():
            if word in KEYWORDS:
                keyword = word
            elif keyword == "DEPS":
                room.deps.append(word.removeprefix("autotriton::"))
            elif keyword == "PUBLIC_HEADERS":
                room.public_headers.add(word)
    for word in re.findall(r"autotriton::(\w+)", re.sub(r"autotriton_library\([^)]*\)", "", text)):
        if word != room.name:
            room.deps.append(word)  # A program's target_link_libraries.
    return room


def reachable(rooms: dict[str, Room], start: str) -> set[str]:
    """The rooms that `start` may use, itself left out unless there is a cycle."""
    seen: set[str] = set()
    open_rooms = list(rooms[start].deps)
    while open_rooms:
        name = open_rooms.pop()
        if name in seen or name not in rooms:
            continue
        seen.add(name)
        open_rooms += rooms[name].deps
    return seen


def offences_of(root: Path) -> list[str]:
    source = root / "src"
    rooms = {folder.name: read_room(folder) for folder in sorted(source.iterdir()) if (folder / "CMakeLists.txt").is_file()}
    offences = []
    for room in rooms.values():
        allowed = reachable(rooms, room.name) | {room.name}
        if room.name in reachable(rooms, room.name):
            offences.append(f"src/{room.name}/CMakeLists.txt:1: {room.name} needs itself: {', '.join(sorted(allowed))} form a cycle")
        for path in sorted((source / room.name).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".in"):
                continue
            within = str(path.relative_to(source / room.name))
            public = within in room.public_headers
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                place = f"{path.relative_to(root)}:{number}"
                included = found[2]
                if public and included.startswith(PRIVATE_LIBRARIES):
                    offences.append(f"{place}: a public header includes <{included}>; keep it in .cpp files")
                other, _, rest = included.partition("/")
                if found[1] == "<" or other not in rooms:
                    continue
                if other not in allowed:
                    offences.append(f"{place}: {room.name} may not use {other}: add it to DEPS, or move the code")
                elif other != room.name and rest not in rooms[other].public_headers:
                    offences.append(f"{place}: {included} is no public header of {other}")
                elif public and other == room.name and rest not in room.public_headers:
                    offences.append(f"{place}: a public header includes {included}, which is not public")
    return offences


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the checkout (default: this one)")
    offences = offences_of(parser.parse_args(argv).root.resolve())
    for offence in offences:
        print(offence)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
