#!/usr/bin/env python3
"""wrappers.py: stores, layouts and objects that wrap another one pass every call on.

A method that a wrapper leaves out gets the trait's default, which knows nothing of what lies below: a publication becomes a sync, an
append a look at the length and a write, a lock "not supported". What a wrapper leaves out on purpose stands here, with the reason.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAITS = {
    "Store": "crates/store/src/lib.rs",
    "ReadObject": "crates/store/src/lib.rs",
    "WriteObject": "crates/store/src/lib.rs",
    "Layout": "crates/layout/src/lib.rs",
}
PIECES = "the default makes reads and writes of it, each of which is watched, or tried again"
DESCRIPTOR = "who has the descriptor goes past the wrapper"
ONE_PROCESS = "asked of servers and layouts, which no such wrapper wraps"
LEFT_OUT_OF_OBJECTS = {
    "write_view": PIECES,
    "read_view": PIECES,
    "append": PIECES,
    "claim": ONE_PROCESS,
    "order": ONE_PROCESS,
    "order_from": ONE_PROCESS,
    "file": DESCRIPTOR,
    "is_file": DESCRIPTOR,
}
NOT_BELOW = "bytes may not lie below yet"
# File: {(trait, wrapper): {method left out: reason}}.
WRAPPERS = {
    "crates/layout/src/write_behind/mod.rs": {
        ("Layout", "WriteBehind"): {
            "url": NOT_BELOW,
            "plain_file": NOT_BELOW,
            "lock_folder": "its users are on any host",
            "locks": "its server has none",
            "concrete": NOT_BELOW,
        },
    },
    "crates/movement/src/guarded.rs": {
        ("Layout", "Guarded"): {},
        ("WriteObject", "GuardedWrite"): {},
        ("ReadObject", "GuardedRead"): {},
    },
    "crates/profile/src/storage.rs": {("Layout", "Recorded"): {}, ("WriteObject", "RecordedObject"): {}},
    "crates/store/src/wrap/mod.rs": {
        ("Store", "Wrapped"): {},
        ("ReadObject", "OpenForReading"): {"read_exact_at": PIECES, "read_view": PIECES, "picks": PIECES, "at_hand": PIECES},
        ("WriteObject", "OpenForWriting"): LEFT_OUT_OF_OBJECTS,
    },
    "crates/store/src/wrap/retry.rs": {
        ("Store", "Retry"): {"plain_file": DESCRIPTOR},
        ("ReadObject", "Reading"): {"read_exact_at": PIECES, "read_view": PIECES, "picks": PIECES},
        ("WriteObject", "Writing"): LEFT_OUT_OF_OBJECTS,
    },
}


def block(text, begins):
    """The lines of an item of Rust, from the line that begins it to the brace that ends it."""
    found = re.search(begins, text, re.MULTILINE)
    if not found:
        return None
    return text[found.start() : text.index("\n}\n", found.start())]


def main():
    methods = {}
    for trait, path in TRAITS.items():
        methods[trait] = re.findall(r"^    fn (\w+)", block((ROOT / path).read_text(), rf"^pub trait {trait}\b"), re.MULTILINE)
    wrong = []
    for path, wrappers in WRAPPERS.items():
        text = (ROOT / path).read_text()
        for (trait, wrapper), left_out in wrappers.items():
            body = block(text, rf"^impl(<[^>]*>)? {trait} for {wrapper}\b")
            if body is None:
                wrong.append(f"{path}: no `impl {trait} for {wrapper}`")
                continue
            passed_on = {name for name in methods[trait] if re.search(rf"^\s+(fn )?{name}\(", body, re.MULTILINE)}
            for name in methods[trait]:
                if name not in passed_on and name not in left_out:
                    wrong.append(f"{path}: {wrapper} does not pass on {trait}::{name}")
            wrong += [f"{path}: {wrapper} passes on {name}, listed as left out" for name in left_out if name in passed_on]
    print("\n".join(wrong) or f"{sum(map(len, WRAPPERS.values()))} wrappers pass every call on")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
