"""What an installation's programs and libraries contain: sbom.py FOLDER [--no-default-features]

- `sbom.cdx.json`: a list of components in CycloneDX 1.5, for programs that look up vulnerabilities and licences: each crate with its
  version, licence, checksum and what it depends on.
- `third-party.txt`: the same for readers, with the texts of the licences.

Crates of tests and of build scripts are no part of it. From Cargo.lock alone, so the same commit gives the same bytes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

#: What `./dev install` and `pip` install.
INSTALLED = ["thalweg-cli", "thalweg-capi", "thalweg-preload", "thalweg-convert", "thalweg-python"]
LICENCE = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)


def said_by(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def metadata(features):
    host = re.search(r"^host: (.*)$", said_by("rustc", "-vV"), re.MULTILINE)[1]
    return json.loads(said_by("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host, *features))


def contained(found, features):
    """Packages by their identity, and what each of them is linked with: those that programs of ours contain."""
    packages = {package["id"]: package for package in found["packages"]}
    # Metadata have crates, too, that stand behind features which nobody asked for.
    roots = [word for name in INSTALLED for word in ("--package", name)]
    shape = ("--edges", "normal", "--prefix", "none", "--format", "{p}")
    tree = said_by("cargo", "tree", "--locked", *roots, *shape, *features)
    wanted = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    inside = {key for key, package in packages.items() if (package["name"], f"v{package['version']}") in wanted}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}

    def normal(dep):
        return dep["pkg"] in inside and any(kind["kind"] is None for kind in dep["dep_kinds"])

    return packages, {key: sorted({dep["pkg"] for dep in nodes[key]["deps"] if normal(dep)}) for key in inside}


def component(package, checksums):
    """A crate, in CycloneDX's words."""
    name, version = package["name"], package["version"]
    said = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if package["license"]:
        said["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        said["purl"] = f"pkg:cargo/{name}@{version}"
        if (name, version) in checksums:
            said["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    if package["description"]:
        said["description"] = " ".join(package["description"].split())
    return said


def texts(package):
    """The texts of a crate's licences: its own, and those of the sources in other languages that lie in it."""
    root = Path(package["manifest_path"]).parent
    found = [path for path in root.iterdir() if LICENCE.match(path.name)]
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and path.name not in ("tests", "benches", "examples")):
        found += [path for path in folder.iterdir() if LICENCE.match(path.name)]
    # A folder LICENSES has a file for each.
    found = [file for path in found for file in (sorted(path.iterdir()) if path.is_dir() else [path]) if file.is_file()]
    return [path.read_text(errors="replace").strip() for path in sorted(found) if path.suffix not in (".rs", ".c", ".h", ".html")]


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    packages, linked = contained(metadata(sys.argv[2:]), sys.argv[2:])
    # Pythons before 3.11 read no TOML.
    locked = re.compile(r'^name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"$', re.MULTILINE)
    checksums = {(name, version): checksum for name, version, checksum in locked.findall(Path("Cargo.lock").read_text())}
    version = next(package["version"] for package in packages.values() if package["name"] in INSTALLED)

    def ref(identity):
        return f"{packages[identity]['name']}@{packages[identity]['version']}"

    every = sorted(linked, key=lambda identity: (packages[identity]["name"], packages[identity]["version"]))
    own = f"thalweg@{version}"
    roots = [ref(identity) for identity in every if packages[identity]["name"] in INSTALLED]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "thalweg",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [component(packages[identity], checksums) for identity in every],
        "dependencies": [{"ref": own, "dependsOn": roots}]
        + [{"ref": ref(identity), "dependsOn": [ref(other) for other in linked[identity]]} for identity in every],
    }
    (folder / "sbom.cdx.json").write_text(json.dumps(bom, indent=1, ensure_ascii=False) + "\n")

    lines = ["Thalweg contains the crates below, each under a licence of its own.", ""]
    numbers, of_text = {}, []
    for identity in every:
        package = packages[identity]
        if package["source"] is None:
            continue
        shown = []
        for text in texts(package):
            if text not in numbers:
                numbers[text] = len(of_text) + 1
                of_text.append(text)
            shown.append(str(numbers[text]))
        where = f" (texts {', '.join(shown)})" if shown else " (its sources have no text)"
        lines.append(f"{package['name']} {package['version']}: {package['license']}{where}")
    for number, text in enumerate(of_text, 1):
        lines += ["", f"---- text {number} ----", "", text]
    (folder / "third-party.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
