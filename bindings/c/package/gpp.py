#!/usr/bin/env python3
"""gpp.py, for build files of programs for ADIOS 1.x: `thalweg gen` under the name that they call."""

import os
import sys

here = os.path.dirname(os.path.realpath(__file__))
thalweg = os.path.normpath(os.path.join(here, "..", "..", "bin", "thalweg"))
if not os.path.exists(thalweg):
    sys.exit("gpp.py: " + thalweg + " is not installed")
os.execv(thalweg, ["thalweg", "gen", *sys.argv[1:]])
