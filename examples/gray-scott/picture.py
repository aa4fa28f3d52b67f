"""Draws a 2-D slice as a PNG picture, 8 x 8 dots a cell, from dark blue (least) over green to yellow (greatest).

picture.py SLICE.npy OUT.png
"""

import struct
import sys
import zlib

import numpy as np

DOTS = 8
COLOURS = np.array([[20, 11, 52], [40, 60, 120], [32, 110, 120], [50, 160, 95], [160, 205, 60], [250, 240, 110]], dtype="f8")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main():
    field = np.squeeze(np.load(sys.argv[1]))
    if field.ndim != 2:
        sys.exit(f"{sys.argv[1]}: a picture needs two dimensions, this has {field.ndim}")
    spread = float(np.ptp(field))
    level = (field - field.min()) / (spread or 1.0) * (len(COLOURS) - 1)
    below = np.minimum(level.astype(int), len(COLOURS) - 2)
    part = (level - below)[..., None]
    dots = (COLOURS[below] * (1 - part) + COLOURS[below + 1] * part).round().astype("u1")
    dots = dots.repeat(DOTS, axis=0).repeat(DOTS, axis=1)
    rows = b"".join(b"\0" + row.tobytes() for row in dots)  # 0: no filter
    with open(sys.argv[2], "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", dots.shape[1], dots.shape[0], 8, 2, 0, 0, 0)))
        out.write(chunk(b"IDAT", zlib.compress(rows, 9)))
        out.write(chunk(b"IEND", b""))
    print(f"{sys.argv[2]}: {field.min():.4g} to {field.max():.4g}")


if __name__ == "__main__":
    main()
