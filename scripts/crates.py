#!/usr/bin/env python3
"""crates.py [--write]: the table of crates in ARCHITECTURE.md says what the manifests say; --write makes it so.

Checked: each crate of the workspace is a row; the column "uses" names the crates that it uses directly, without those that these use
themselves; a crate uses crates of earlier rows alone; the preload door stands on what every process may hold and nothing else.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "ARCHITECTURE.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \| ([^|]*) \|$")
# What a program that knows nothing of us gets into its process (docs/decisions/0023).
PRELOAD = {"types", "view", "exit_status", "params", "diagnostics", "store", "layout", "mounts", "partition", "remote", "open_file"}
NEVER_IN_PRELOAD = {"blosc-src", "zfp-sys", "zfp-sys-cc", "zstd-sys", "ureq", "reqwest", "hdfs-native", "opendal", "tokio", "rayon"}


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def crates():
    """For each crate, by its folder: the folders of those that it uses, tests aside."""
    packages = metadata()["packages"]
    folder = {}
    for package in packages:
        path = Path(package["manifest_path"]).parent.relative_to(ROOT)
        folder[package["name"]] = str(path).removeprefix("crates/")
    uses = {}
    for package in packages:
        names = {d["name"] for d in package["dependencies"] if d["kind"] != "dev" and d["name"] in folder}
        uses[folder[package["name"]]] = {folder[name] for name in names}
    return uses


def reachable(uses, crate):
    seen, todo = set(), list(uses[crate])
    while todo:
        next_one = todo.pop()
        if next_one not in seen:
            seen.add(next_one)
            todo.extend(uses[next_one])
    return seen


def column(uses, order, crate):
    """What a crate uses, without what that uses itself, in the order of the table."""
    implied = set().union(*(reachable(uses, used) for used in uses[crate])) if uses[crate] else set()
    told = sorted(uses[crate] - implied, key=lambda used: order.get(used, len(order)))
    return ", ".join(f"`{used}`" for used in told) or "nothing"


def outside(crate):
    """Names of all packages that a crate is linked with."""
    command = ["cargo", "tree", "-p", crate, "--edges", "normal", "--prefix", "none"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if line.strip()}


def main():
    uses = crates()
    text = MAP.read_text()
    begin = text.index("| crate | owns | uses |")
    end = text.index("\n\n", begin)
    lines = text[begin:end].split("\n")
    rows = [ROW.match(line) for line in lines[2:]]
    wrong = [f"ARCHITECTURE.md: not a row: {line}" for line, row in zip(lines[2:], rows) if row is None]
    named = [row[1] for row in rows if row]
    wrong += [f"ARCHITECTURE.md: {name} has several rows" for name in sorted(set(named)) if named.count(name) > 1]
    order = {crate: k for k, crate in enumerate(named)}
    wrong += [f"ARCHITECTURE.md: crate {crate} has no row" for crate in sorted(set(uses) - set(named))]
    for crate in set(named) & set(uses):
        late = [used for used in uses[crate] if order.get(used, -1) > order[crate]]
        wrong += [f"ARCHITECTURE.md: {crate} uses {used}, which is a later row" for used in sorted(late)]
    new = lines[:2]
    for line, row in zip(lines[2:], rows):
        if row and row[1] in uses:
            line = f"| `{row[1]}` | {row[2]} | {column(uses, order, row[1])} |"
        new.append(line)
    if new != lines:
        if "--write" in sys.argv[1:]:
            MAP.write_text(text[:begin] + "\n".join(new) + text[end:])
        else:
            changed = [f"  {n}" for o, n in zip(lines, new) if o != n]
            wrong.append("ARCHITECTURE.md: the column \"uses\" differs from the manifests (scripts/crates.py --write):")
            wrong += changed
    preload = reachable(uses, "doors/preload")
    wrong += [f"doors/preload uses {crate}" for crate in sorted(preload - PRELOAD)]
    wrong += [f"doors/preload is linked with {name}" for name in sorted(outside("thalweg-preload") & NEVER_IN_PRELOAD)]
    print("\n".join(wrong) if wrong else f"{len(uses)} crates, {len(named)} rows")
    sys.exit(bool(wrong))


main()
