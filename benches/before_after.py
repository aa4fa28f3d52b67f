"""Compares two checkouts by a bench that ran in both, in turns: prints each measurement's ratio of medians, after to before.

usage: before_after.py BEFORE.json... -- AFTER.json...   (the files that BENCH_JSON names, one of each run)

The code of raw writes and of other libraries is the same in both checkouts. The range of their ratios shows what the machine does to a
measurement; a measurement of Thalweg outside of that range is marked.
"""

import json
import statistics
import sys

#: Parts of names of measurements in which no code of Thalweg runs.
OTHERS = ("raw", "adios", "hdf5", "pnetcdf", "serial", "h5py", "pwrite", "pread", "plain", "bindfs", "BP4", "BP5")


def samples(paths):
    """All samples of each measurement, in the order in which names first came."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for measurement in json.load(file)["measurements"]:
                kept = [s for s in measurement["samples"] if s is not None]
                found.setdefault(measurement["name"], []).extend(kept)
    return found


def main(arguments):
    """Prints the table; returns 1 if no measurement is in both checkouts."""
    middle = arguments.index("--")
    before, after = samples(arguments[:middle]), samples(arguments[middle + 1 :])
    rows = []
    for name, then in before.items():
        now = after.get(name, [])
        if then and now and statistics.median(then) > 0:
            rows.append((name, statistics.median(then), statistics.median(now), min(then), min(now)))
    if not rows:
        print("no measurement is in both", file=sys.stderr)
        return 1

    def of_others(name):
        return any(part.lower() in name.lower() for part in OTHERS)

    spread = [now / then for name, then, now, *_ in rows if of_others(name)]
    low, high = (min(spread), max(spread)) if spread else (1.0, 1.0)
    print(f"ratios of others' code, which is the same in both: {low:.3f} to {high:.3f}\n")
    width = max(len(name) for name, *_ in rows)
    print(f"| {'measurement':<{width}} | before | after | after/before | of the least |     |")
    print(f"|{'-' * (width + 2)}|-------:|------:|-------------:|-------------:|-----|")
    for name, then, now, least_then, least_now in rows:
        ratio = now / then
        mark = "other" if of_others(name) else "" if low <= ratio <= high else "above" if ratio > high else "below"
        least = least_now / least_then if least_then > 0 else float("nan")
        print(f"| {name:<{width}} | {then:.4g} | {now:.4g} | {ratio:.3f} | {least:.3f} | {mark:<5} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
