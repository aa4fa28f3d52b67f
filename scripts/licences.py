"""Checks that every crate we use states a licence that deny.toml allows; prints the ones that don't and exits 1."""

import json
import re
import subprocess
import sys
import tomllib


def allowed(expression, allow):
    """Whether an SPDX expression can be met with licences in `allow` alone (OR: one side, AND: both)."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        result = both()
        while words and words[0] == "OR":
            words.pop(0)
            result = both() or result
        return result

    def both():
        result = one()
        while words and words[0] == "AND":
            words.pop(0)
            result = one() and result
        return result

    def one():
        word = words.pop(0)
        if word == "(":
            result = either()
            words.pop(0)
            return result
        if words and words[0] == "WITH":
            words.pop(0)
            word = f"{word} WITH {words.pop(0)}"
        return word in allow

    return either() and not words


def main():
    with open("deny.toml", "rb") as file:
        licences = tomllib.load(file)["licenses"]
    allow = set(licences["allow"])
    besides = {exception["name"]: set(exception["allow"]) for exception in licences["exceptions"]}
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:  # something is not downloaded yet
        answer = subprocess.run(command[:-1], stdout=subprocess.PIPE, text=True, check=True)
    packages = json.loads(answer.stdout)["packages"]
    refused = [p for p in packages if not allowed(p["license"] or "none", allow | besides.get(p["name"], set()))]
    for package in refused:
        print(f"{package['name']} {package['version']}: licence {package['license'] or 'not stated'} is not in deny.toml")
    print(f"{len(packages)} crates, {len(refused)} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
