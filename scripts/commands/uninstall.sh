# shellcheck shell=bash
# uninstall PREFIX [DESTDIR=...]: removes the files that ./dev install PREFIX put there, and the folders that it made and that are empty
source scripts/installation.sh

from=''
while [[ $# -gt 0 ]]; do
    case $1 in
        DESTDIR=*) export "${1?}" ;;
        -*) echo "dev uninstall: unknown option $1" >&2 && exit 2 ;;
        *) from=$1 ;;
    esac
    shift
done
[[ -n $from ]] || { echo "usage: ./dev uninstall PREFIX [DESTDIR=...]" >&2 && exit 2; }
paths_of "$from"
if [[ ! -s $manifest ]]; then
    echo "uninstall: there is no $manifest, which lists what was installed; nothing is removed" >&2
    exit 1
fi
# Every line is looked at before the first file is removed.
mapfile -t entries <"$manifest"
for entry in "${entries[@]}"; do
    # Outside PREFIX lie libraries, and what describes them.
    if [[ /$entry/ == */../* || $entry == /* && $entry != */ && ${entry##*/} != *thalweg* ]]; then
        echo "uninstall: $manifest has a line that no installation writes: $entry; nothing is removed" >&2
        exit 1
    fi
done
folders=() removed=0
for entry in "${entries[@]}"; do
    path_of "$entry"
    if [[ $entry == */ ]]; then
        folders+=("$(realpath -ms "$path")")
    elif [[ $path != "$manifest" && ( -e $path || -L $path ) ]]; then
        rm -f "$path"
        removed=$((removed + 1))
    fi
done
rm -f "$manifest"
# What lies deepest first. A folder that holds something else stays.
while IFS= read -r path; do
    [[ ! -d $path ]] || rmdir --ignore-fail-on-non-empty "$path"
done < <(printf '%s\n' "${folders[@]}" | awk '{ print gsub("/", "/"), $0 }' | sort -rn | cut -d' ' -f2-)
echo "uninstalled $removed files from $prefix"
