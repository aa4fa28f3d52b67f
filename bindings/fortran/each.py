#!/usr/bin/env python3
"""each.py [WORD...] [KEY=VALUE...] < TEMPLATE > MODULE: writes a procedure out once per kind.

Lines from `#each` to `#end` are repeated for every kind of `kinds`, those from `#each number` for all but logicals; @kind@,
@type@ and @adios@ then stand for its name, its declaration, and the type that has it in a file. Lines from `#if WORD` to `#end` stay where WORD was given.
@KEY@ is replaced by the given value: with mpi=openmpi, @mpi@ becomes openmpi.
"""

import sys

# name, Fortran's declaration, type in a file
kinds = [
    ("int1", "integer(int8)", "adios_byte"),
    ("int2", "integer(int16)", "adios_short"),
    ("int4", "integer(int32)", "adios_integer"),
    ("int8", "integer(int64)", "adios_long"),
    ("real4", "real(real32)", "adios_real"),
    ("real8", "real(real64)", "adios_double"),
    ("complex8", "complex(real32)", "adios_complex"),
    ("complex16", "complex(real64)", "adios_double_complex"),
    ("logical1", "logical(int8)", "adios_byte"),
    ("logical2", "logical(int16)", "adios_short"),
    ("logical4", "logical(int32)", "adios_integer"),
    ("logical8", "logical(int64)", "adios_long"),
]


def expand(lines, words):
    """The lines of the module."""
    values = dict(word.split("=", 1) for word in words if "=" in word)
    lines = iter([filled(line, values) for line in lines])
    for line in lines:
        first, *rest = line.split() or [""]
        if first == "#each":
            block = block_of(lines)
            for kind, declaration, adios in kinds:
                if "number" in rest and kind.startswith("logical"):
                    continue
                for text in block:
                    yield text.replace("@kind@", kind).replace("@type@", declaration).replace("@adios@", adios)
        elif first == "#if":
            block = block_of(lines)
            if rest[0] in words:
                yield from block
        else:
            yield line


def filled(line, values):
    """The line with the values of keys."""
    for key, value in values.items():
        line = line.replace(f"@{key}@", value)
    return line


def block_of(lines):
    """The lines up to `#end`."""
    block = []
    for line in lines:
        if line.strip() == "#end":
            return block
        block.append(line)
    sys.exit("each.py: an #each or #if without #end")


if __name__ == "__main__":
    sys.stdout.writelines(expand(sys.stdin, sys.argv[1:]))
