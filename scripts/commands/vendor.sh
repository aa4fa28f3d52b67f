# shellcheck shell=bash
# vendor [FILE.tar.gz]: packs this commit's sources and those of all crates into a file (.tar, .tar.gz, .tar.xz, .tar.zst), which builds without a network
#
# On the machine without a network: unpack it, and ./dev install PREFIX. Fuzz targets are not built there.
source scripts/machine.sh
source scripts/build.sh

name=thalweg-$version
file=${1:-build/$name.tar.gz}
[[ $file != -* && $file == *.tar* ]] || { echo "usage: ./dev vendor [FILE.tar.gz]" >&2 && exit 2; }
needs_rust
if [[ ! -e .git ]]; then
    echo "vendor: only a clone of the repository can be packed" >&2
    exit 1
fi
[[ -z $(git status --porcelain --untracked-files=no) ]] || echo "vendor: changes that are not committed are left out" >&2
mkdir -p build
scratch=$(mktemp -d build/vendor.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$(dirname "$file")"
git archive --prefix="$name/" HEAD | tar -x -C "$scratch"
git rev-parse --short=12 HEAD >"$scratch/$name/COMMIT"
# Its answer tells cargo to look for all crates in that folder alone.
if ! (cd "$scratch/$name" && cargo vendor --locked vendor >../config.toml 2>../said.txt); then
    cat "$scratch/said.txt" >&2
    exit 1
fi
printf '\n' | cat - "$scratch/config.toml" >>"$scratch/$name/.cargo/config.toml"
# The same commit packs the same bytes.
tar --auto-compress --create --file "$file" --directory "$scratch" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct)" "$name"
echo "$file: $(du -h "$file" | cut -f1), $(find "$scratch/$name/vendor" -mindepth 1 -maxdepth 1 | wc -l) crates"
