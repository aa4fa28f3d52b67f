# shellcheck shell=bash
# lint: rustfmt, clippy with warnings denied, licences, the map of crates, one set of features, wrappers that pass every call on, links in documentation, shellcheck
source scripts/machine.sh

needs "${build_tools[@]}" "${openmpi_packages[@]}" shellcheck python3
needs_rust
source scripts/build.sh

passed=0 failed=0
check() {
    local name=$1 began=$SECONDS
    shift
    echo "== $name"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "lint: $name failed" >&2; fi
    [[ $((SECONDS - began)) -lt 10 ]] || echo "   $((SECONDS - began)) s"
}

shell_scripts() {
    git ls-files --cached --others --exclude-standard -z -- dev .ci/run '*.sh' 'benches/*/run' | xargs -0 shellcheck -x
}

rust_docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --exclude thalweg-fuzz --no-deps "${features[@]}"
}

check rustfmt cargo fmt --all --check
check clippy cargo clippy --quiet --workspace --all-targets "${features[@]}" -- -D warnings
check "documentation" rust_docs
check "map of crates" /usr/bin/python3 scripts/crates.py
check "one set of features" /usr/bin/python3 scripts/features.py thalweg-python "${features[@]}"
check "wrappers" /usr/bin/python3 scripts/wrappers.py
check links /usr/bin/python3 scripts/links.py
check licences /usr/bin/python3 scripts/licences.py
check shellcheck shell_scripts
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
