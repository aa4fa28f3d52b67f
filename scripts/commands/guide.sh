# shellcheck shell=bash
# guide: writes the guide's tables of parameters anew from their declarations
source scripts/machine.sh

needs "${build_tools[@]}"
needs_rust
THALWEG_UPDATE_GUIDE=1 cargo test --quiet --workspace --test guide
git --no-pager diff --stat -- docs/guide
