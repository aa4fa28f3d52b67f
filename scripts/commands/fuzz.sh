# shellcheck shell=bash
# fuzz SECONDS: feeds every decoder with made-up bytes, the seconds shared among the targets
source scripts/machine.sh

seconds=${1:?usage: ./dev fuzz SECONDS}
if [[ ! -f fuzz/Cargo.toml ]]; then
    echo "dev fuzz: there is no fuzz/Cargo.toml yet" >&2
    exit 1
fi
needs "${build_tools[@]}" clang
needs_rust
# Sanitizer coverage is a nightly feature; the product itself builds with stable.
cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
PATH=$PWD/build/tools/bin:$PATH
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root build/tools cargo-fuzz
mapfile -t targets < <(cargo +nightly fuzz list)
[[ ${#targets[@]} -gt 0 ]] || { echo "dev fuzz: fuzz/ has no targets" >&2 && exit 1; }
each=$((seconds / ${#targets[@]}))
[[ $each -gt 0 ]] || each=1
# As what is installed, but with overflow and the library's own checks looked for; and the link takes seconds.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo +nightly fuzz build --features libfuzzer
failed=()
for target in "${targets[@]}"; do
    echo "== $target, $each s"
    seeds=()
    [[ -d fuzz/seeds/$target ]] && seeds=("fuzz/seeds/$target/")
    mkdir -p "fuzz/corpus/$target"
    # The memory limit is there to find allocations that the input does not justify.
    cargo +nightly fuzz run --features libfuzzer "$target" "fuzz/corpus/$target" "${seeds[@]}" -- \
        -max_total_time="$each" -rss_limit_mb=512 -timeout=10 -verbosity=0 -print_final_stats=1 || failed+=("$target")
done
if [[ ${#failed[@]} -gt 0 ]]; then
    echo "found something: ${failed[*]} (for the next steps see fuzz/README.md)" >&2
    exit 1
fi
echo "${#targets[@]} targets, $each s each: nothing found"
