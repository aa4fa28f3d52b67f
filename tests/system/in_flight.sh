#!/usr/bin/env bash
# Outputs in flight (async=yes) on ranks of MPI: the program and commands of docs/guide/async.md; a late rank, with MPI for many threads and for one.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/in_flight/${MPI:-openmpi}
source tests/checks.sh

guide=$PWD/docs/guide/async.md source=$PWD/tests/system/native/in_flight.c
with_libraries
compile() {
    local flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
    "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$source" -o "$work/in_flight" $(pkg-config --libs "thalweg-$MPI")
}
compile_cpp() {
    printf '%s\n' '#include <thalweg.hpp>' 'static const char xml[] = "<adios-config host-language=\"C\"><adios-group name=\"g\"><var name=\"T\" type=\"double\" dimensions=\"50000\"/></adios-group><method group=\"g\" method=\"POSIX\">async=yes</method></adios-config>";' \
        'int main() { auto s = thalweg::Session::from_text(xml); auto T = s.alloc<double>(50000); for (double &t : T) t = 2.5;' \
        '  auto o = s.open("g", "cpp.bp", thalweg::Mode::write); auto few = s.alloc<float>(50000);' \
        '  try { o.commit("T", std::move(few)); return 1; } catch (const thalweg::Error &) { if (few.size() != 50000) return 2; }' \
        '  thalweg::Output &(thalweg::Output::*lend)(const std::string &, std::vector<double> &, const thalweg::Box &) = &thalweg::Output::lend<std::vector<double> &>; (void)lend; o.commit("T", std::move(T)); if (T.data() || T.size()) return 3;' \
        '  thalweg::Pending p = o.start_close(); p.wait(); s.wait_all(); s.close();' \
        '  thalweg::Reader r("cpp.bp"); const auto v = r.read<double>("T"); return v.size() == 50000 && v[49999] == 2.5 ? 0 : 4; }' >"$work/in_flight.cpp"
    g++ -std=c++17 -Wall -Wextra -Werror -D_NOMPI $(pkg-config --cflags thalweg-nompi) "$work/in_flight.cpp" -o "$work/in_flight++" $(pkg-config --libs thalweg-nompi)
    (cd "$work" && ./in_flight++)
}
compile_fortran() {
    local warnings=(-cpp -std=f2018 -O1 -g -Wall -Wextra -Wno-compare-reals -fcheck=all)
    (cd "$work" && "$MPIF90" "${warnings[@]}" $(pkg-config --cflags "thalweg-fortran-$MPI") "${source%.c}.f90" -o in_flight.f $(pkg-config --libs "thalweg-fortran-$MPI"))
}
compile_left() {
    local flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
    "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "${source%/*}/left_in_flight.c" -o "$work/left_in_flight" $(pkg-config --libs "thalweg-$MPI")
}
try "the program compiles" compile
try "the program that leaves outputs in flight compiles" compile_left
try "the program compiles (Fortran)" compile_fortran
try "the calls of C++ compile and run" compile_cpp
[[ $failed == 0 ]] || exit 1
for ranks in 1 2 "$MPI_RANKS"; do
    many "$MPI, $ranks ranks" run "$ranks" ./in_flight multiple "files.$ranks"
    many "$MPI, $ranks ranks, one thread" run "$ranks" ./in_flight single "files.$ranks"
    many "Fortran, $MPI, $ranks ranks" run "$ranks" ./in_flight.f "files.$ranks"
done

# Written slowly, so that outputs are in flight when MPI ends, with any number of threads.
left_in_flight() { # left_in_flight RANKS LEVEL
    local folder=$work/left.$1.$2 said
    mkdir -p "$folder"
    printf '[[mount]]\npath = "%s"\nlayout = "direct"\nstore = "posix:%s"\nrate = "8MiB"\n' "$folder" "$folder" >"$folder.toml"
    said=$(THALWEG_MOUNTS=$folder.toml run "$1" ./left_in_flight "$2" "$folder" 2>&1)
    echo "$said"
    [[ -z $said ]]
}
for ranks in 1 "$MPI_RANKS"; do
    for level in multiple single; do
        try "a program ends with its outputs in flight ($MPI, $ranks ranks, $level)" left_in_flight "$ranks" "$level"
        many "$MPI, $ranks ranks, $level" run 1 ./left_in_flight check "left.$ranks.$level"
    done
done

printed() { # printed LANGUAGE: the first block of this language
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$guide" | sed '1d;/^```$/,$d'
}
as_in_the_guide() {
    local guide_work=$work/guide
    mkdir -p "$guide_work"
    printed c >"$guide_work/program.c"
    printed sh >"$guide_work/commands.sh"
    grep -qx 'mpirun -n 4 ./program' "$guide_work/commands.sh"
    sed -i "s/^mpicc/$(basename "$MPICC")/; s/--libs thalweg)/--libs thalweg-$MPI)/; s/^mpirun -n 4/${mpiexec[*]} -n $MPI_RANKS/" "$guide_work/commands.sh"
    (cd "$guide_work" && limited 300 bash -e ./commands.sh)
    # Five steps of 1 MiB a rank.
    (($(stat -c %s "$guide_work/heat.bp") > 5 * MPI_RANKS << 20))
}
try "the guide's program writes its file" as_in_the_guide
exit "$failed"
