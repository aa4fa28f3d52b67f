#!/usr/bin/env python3
"""Whether packages that are built alone have the features that they have in the whole workspace.

cargo builds a library again for each set of features, and all that stands on it: of `./dev test`, the package for Python would cost
minutes. Prints what differs; exit code 1 if anything does. What to do then is in [workspace.dependencies] of Cargo.toml.

    features.py PACKAGE... [--features FEATURES]    FEATURES of the workspace, as scripts/build.sh has them
"""

import argparse
import subprocess
import sys


def built(kinds, *selection):
    """(package, its features) of everything that is built for this selection."""
    command = ["cargo", "tree", "--locked", "--edges", kinds, "--format", "{p}|{f}", "--prefix", "none", *selection]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if told.returncode != 0:
        sys.exit(told.stderr)
    # Headings as "[build-dependencies]" lie between.
    return {tuple(line.removesuffix(" (*)").split("|")) for line in told.stdout.splitlines() if "|" in line}


arguments = argparse.ArgumentParser()
arguments.add_argument("packages", nargs="+")
arguments.add_argument("--features", default="")
asked = arguments.parse_args()
whole = built("normal,build,dev", "--workspace", "--features", asked.features)
failed = False
for package in asked.packages:
    alone = built("normal,build", "--package", package)
    for library, features in sorted(alone - whole):
        failed = True
        others = [f for l, f in sorted(whole) if l == library]
        print(f"{package} has {library} with features '{features}', the workspace with '{' or '.join(others)}'")
    print(f"{package}: {len(alone)} packages")
sys.exit(1 if failed else 0)
