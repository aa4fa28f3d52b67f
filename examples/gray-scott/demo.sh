#!/usr/bin/env bash
# The demonstration of `./dev demo`: a simulation writes, several programs read. Leaves its files in build/demo.
#
# From the environment: PREFIX (where Thalweg is installed), MPICC, MPIEXEC, PYTHON (with numpy and adios2).
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
: "${PREFIX:?}" "${MPICC:?}" "${MPIEXEC:?}" "${PYTHON:?}"
out=$(realpath -m "$here/../../build/demo")
size=64
plane=$((size / 2))
read -ra mpiexec <<<"$MPIEXEC"
PATH=$PREFIX/bin:$PATH

bold='' plain=''
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

for part in lib/pkgconfig/thalweg.pc bin/thalweg; do
    if [[ ! -e $PREFIX/$part ]]; then
        echo "demo: $PREFIX/$part is missing; what makes it is not there yet" >&2
        exit 1
    fi
done

rm -rf "$out"
mkdir -p "$out"
make --silent -C "$here" PREFIX="$PREFIX" MPICC="$MPICC" OUT="$out"

# simulate FOLDER RANKS OPTIONS...: runs the simulation in a folder of its own.
simulate() {
    local folder=$1 ranks=$2
    shift 2
    mkdir -p "$folder"
    [[ -f $folder/gray-scott.xml ]] || cp "$here/gray-scott.xml" "$folder"
    (cd "$folder" && "${mpiexec[@]}" -n "$ranks" ../gray-scott --size $size "$@")
}
fingerprint() { sed -n 's/^fingerprint of the final state: //p' "$1"; }

cd "$out"
say "Gray-Scott on 4 ranks, $size x $size x $size cells, 1000 steps; methods as in gray-scott.xml"
grep '<method' "$here/gray-scott.xml"
simulate whole 4 --steps 1000 --plotgap 100 --checkpoint 500 | tee whole.log

say "What it wrote: thalweg ls -l"
thalweg ls -l whole/gs.bp
thalweg ls -l whole/restart.bp

say "In which steps is max(v) > 0.5? The characteristics answer, no value is read: thalweg find"
thalweg find whole/gs.bp 'max(v) > 0.5'

say "The same run in two parts: 500 steps on 4 ranks, carried on by 3"
simulate parts 4 --steps 500 --plotgap 100 --checkpoint 500
simulate parts 3 --steps 1000 --plotgap 100 --checkpoint 500 --restart | tee parts.log
if [[ $(fingerprint whole.log) != "$(fingerprint parts.log)" ]]; then
    echo "demo: the run in two parts ended elsewhere than the run in one" >&2
    exit 1
fi
echo "equal bit by bit to the run in one part"

say "Another method, by editing the XML only"
mkdir subfiles
sed '/<method group="fields"/s/method="MPI"/method="POSIX"/' "$here/gray-scott.xml" >subfiles/gray-scott.xml
diff "$here/gray-scott.xml" subfiles/gray-scott.xml || true
simulate subfiles 4 --steps 1000 --plotgap 100 --checkpoint 0
ls subfiles subfiles/gs.bp.dir

say "The same values from all three: thalweg dump"
for run in whole parts subfiles; do
    thalweg dump $run/gs.bp "v[-1, $plane, :, :]" --npy $run.npy
done
cmp whole.npy parts.npy
cmp whole.npy subfiles.npy
echo "equal bit by bit"

say "Read by ADIOS 1.13: bpls -l"
if command -v bpls >/dev/null; then
    bpls -l whole/gs.bp
    bpls -l subfiles/gs.bp v
else
    echo "bpls is not on this machine"
fi

say "Read by adios2"
for run in whole subfiles; do
    "$PYTHON" "$here/read_adios2.py" $run/gs.bp v $plane $run.npy
done

say "A picture of the slice"
"$PYTHON" "$here/picture.py" whole.npy v.png
echo "build/demo/v.png"
