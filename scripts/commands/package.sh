# shellcheck shell=bash
# package NAME [FOLDER]: makes a package of this commit in FOLDER (build/package/NAME): wheel (for pip, on any Linux with glibc 2.28), deb (for Debian)
name=${1:-}
if [[ ! -f scripts/packages/$name.sh ]]; then
    echo "usage: ./dev package NAME [FOLDER]; there are:" >&2
    for file in scripts/packages/*.sh; do
        echo "  $(basename "$file" .sh)" >&2
    done
    exit 2
fi
folder=$(realpath -m "${2:-build/package/$name}")
mkdir -p "$folder"
exec bash "scripts/packages/$name.sh" "$folder"
