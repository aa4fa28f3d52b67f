#!/usr/bin/env bash
# The preload door: real programs, a C program that makes every kind of call, the exerciser, four processes that write one
# file; on each layout. What a program prints and leaves is compared with the same run on a plain folder.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$PWD/build/preload
source tests/checks.sh

cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror tests/system/preload/calls.c -o "$work/calls" -pthread
cc -std=c11 -D_GNU_SOURCE -O1 -g tests/system/exercise.c -o "$work/exercise"
cc -static -std=c11 -D_GNU_SOURCE -O1 tests/system/preload/calls.c -o "$work/static" -pthread 2>>"$work/static.log" || true

export THALWEG_MOUNTS=$work/mounts.toml
# No repository above is ever taken for one of ours.
export GIT_CEILING_DIRECTORIES=$work GIT_CONFIG_GLOBAL=/dev/null
mount() { # mount NAME LAYOUT STORES
    local list='' store
    for ((store = 0; store < $3; store++)); do
        mkdir -p "$work/$1.$store"
        list="$list${list:+, }\"posix:$work/$1.$store\""
    done
    printf '[[mount]]\npath = "%s"\nlayout = "%s"\nstores = [%s]\n\n' "/mnt/thalweg/$1" "$2" "$list" >>"$THALWEG_MOUNTS"
}
mount container container 1
mount container3 container 3
mount flat flat 1
mount flat3 flat 3
mount small_file small_file 1
mount direct direct 1
mkdir "$work/counted"
printf '[[mount]]\npath = "/mnt/thalweg/counted"\nlayout = "small_file"\nstore = "posix:%s"\ncounts = "%s"\n\n' "$work/counted" "$work/counts" >>"$THALWEG_MOUNTS"
mkdir -p "$work/tiered.fast" "$work/tiered.slow"
printf '[[mount]]\npath = "/mnt/thalweg/tiered"\nlayout = "container"\nstore = "tiered:posix:%s=>posix:%s"\n\n' "$work/tiered.fast" "$work/tiered.slow" >>"$THALWEG_MOUNTS"
layouts=(container container3 flat flat3 small_file direct tiered)

# Each body runs in a folder of its own, which holds a copy of some sources: once plainly, once through each mount.
# shellcheck disable=SC2016  # the inner shell expands them
declare -A bodies=(
    [shell]='echo one > a; echo two >> a; cat < a; { echo x; ls a; echo y; } > b; cat b; (cd sub && echo in > c && cat c); wc -c < a; while read -r l; do echo "<$l>"; done < a; [[ -f a && ! -d a && -s b ]] && echo tests; for f in s*; do echo "$f"; done; printf "%s\n" 3 1 2 | sort -o sorted; cat sorted; exec 5>e; echo five >&5; exec 5>&-; cat e'
    [dd]='dd if=/dev/zero bs=47001 count=9 2>/dev/null | tr "\0" x | dd of=z bs=10k iflag=fullblock 2>/dev/null; dd if=z of=y bs=1000 skip=3 seek=5 count=7 conv=notrunc 2>/dev/null; cksum z y'
    [cp]='cp -r sub copy && cp -p sub/one two && cp --sparse=always sub/one three && diff -r sub copy && cmp two three && ls -R | sort'
    [mv]='cp sub/one a && mv a b && mkdir d && mv b d/ && mv d e && cat e/b | wc -c && rm -r e && ls'
    [tar]='tar -cf all.tar sub && mkdir out && tar -xf all.tar -C out && diff -r sub out/sub && tar -tf all.tar | sort'
    [rsync]='rsync -r sub/ to/ && diff -r sub to && echo more >> to/one && rsync -r --inplace -c sub/ to/ && diff -r sub to && ls to'
    [archive]='touch -d 2001-02-03T04:05:06Z sub/deep sub; tar -cf a.tar sub && mkdir out && tar -xpf a.tar -C out && cp -a sub cpa && rsync -a sub/ to/; for d in out/sub cpa to; do diff -r sub $d; rsync -ai sub/ $d/; rsync -ain $d/ sub/; done; ls -la sub | awk "NR > 1 { print \$1, \$NF }"; ls -la . | grep -c "^d"'
    [find]='find . -type f -name "*e*" | sort; find . -type d | sort; ls -l sub | wc -l; du -a sub | wc -l; grep -rl needle . | sort; chmod 600 sub/one; stat -c "%a %s %F" sub/one; stat -c "%a %F" sub; touch -d 2001-02-03T04:05:06Z sub/one; stat -c %Y sub/one; find sub -delete; ls'
    [python]='python3 -c "
import os, mmap, shutil, tempfile
f = open(\"a\", \"w+b\"); f.write(b\"hello world\"); f.seek(6); print(f.read()); f.truncate(5); f.seek(0, 2); print(f.tell()); f.flush()
print(os.fstat(f.fileno()).st_size); f.close()
m = mmap.mmap(os.open(\"a\", os.O_RDONLY), 0, prot=mmap.PROT_READ); print(m[:], len(m))
os.makedirs(\"x/y\"); shutil.copytree(\"sub\", \"x/sub\"); print(sorted(os.listdir(\"x\")), sorted(e.name for e in os.scandir(\"x/sub\") if e.is_file()))
shutil.rmtree(\"x\"); os.rename(\"a\", \"b\"); print(os.path.exists(\"a\"), os.path.getsize(\"b\"))
t = tempfile.NamedTemporaryFile(dir=\".\"); t.write(b\"q\"); t.flush(); print(os.path.getsize(t.name)); t.close()
for i in range(50): open(f\"n{i}\", \"w\").write(str(i) * i)
print(sum(int(open(f\"n{i}\").read() or 0) % 97 for i in range(50)))
import subprocess; print(subprocess.run([\"cat\", \"n7\"], capture_output=True).stdout)
with open(\"p\", \"w\") as f: subprocess.run([\"echo\", \"child\"], stdout=f)
print(open(\"p\").read())
"'
    [pool]='python3 -c "
import multiprocessing, os
def work(k):
    for n in range(5): open(f\"{k}.{n}\", \"w\").write(f\"{k} {n}\")
    return os.path.getsize(f\"{k}.0\")
if __name__ == \"__main__\":
    open(\"before\", \"w\").write(\"of the parent\")
    with multiprocessing.get_context(\"fork\").Pool(4) as pool: print(sum(pool.map(work, range(40), chunksize=1)))
    print(sum(open(f\"{k}.{n}\").read() == f\"{k} {n}\" for k in range(40) for n in range(5)), len(os.listdir(\".\")))
" && ls | sort | cksum && cat ?.? ??.? | cksum'
    [sqlite3]='sqlite3 db "create table t(a, b); insert into t values (1, 2), (3, 4); begin; insert into t values (5, 6); rollback; select sum(a * b), count(*) from t;" && sqlite3 db "pragma integrity_check; delete from t where a = 1; vacuum; select * from t;"'
    [git]='git clone -q "$PLAIN/repository" here && cd here && git log --oneline | wc -l && git status --short && echo more >> one && git add one && git -c user.name=n -c user.email=e commit -qm change && git log --oneline | wc -l && git fsck && cat one | wc -c'
    [sed]='cp sub/one a && sed -i s/needle/thread/ a && grep -c thread a; sort -u a > b; wc -l < b; split -b 1000 a part. && cat part.* | cmp - a && gzip -k a && zcat a.gz | cmp - a && tail -c 10 a | od -c | head -n 1; tee t1 t2 < b | wc -l; cmp t1 t2'
)
wants() { command -v "$1" >/dev/null 2>&1; }
wants rsync || unset "bodies[archive]"
for tool in rsync sqlite3 git; do
    wants "$tool" || { echo "skipped: $tool through the preload door: it is not installed" && unset "bodies[$tool]"; }
done

PLAIN=$work/plain
export PLAIN
mkdir -p "$PLAIN/sub/deep"
seq 1 3000 | sed 's/777/needle/' >"$PLAIN/sub/one"
printf 'two' >"$PLAIN/sub/two"
: >"$PLAIN/sub/deep/empty"
git init -q "$PLAIN/repository"
cp "$PLAIN/sub/one" "$PLAIN/repository/"
git -C "$PLAIN/repository" add one
git -C "$PLAIN/repository" -c user.name=n -c user.email=e commit -qm first

# shellcheck disable=SC2016  # the inner shell expands it
body='mkdir -p "$1" && cp -r "$PLAIN/sub" "$1/sub" && cd "$1" && eval "$2"'
for name in "${!bodies[@]}"; do
    bash -c "$body" _ "$PLAIN/run.$name" "${bodies[$name]}" >"$work/expected.$name" 2>&1 || echo "fails plainly too" >>"$work/expected.$name"
done
same() { # same NAME LAYOUT
    limited 600 "$thalweg" run -- bash -c "$body" _ "/mnt/thalweg/$2/run.$1" "${bodies[$1]}" >"$work/got.$1.$2" 2>&1 || echo "fails plainly too" >>"$work/got.$1.$2"
    diff "$work/expected.$1" "$work/got.$1.$2"
}
for layout in container flat3 small_file direct tiered; do
    for name in "${!bodies[@]}"; do try "$name on $layout as on a plain folder" same "$name" "$layout"; done
done

operations=1000
[[ ${LONG:-0} == 0 ]] || operations=20000
for layout in "${layouts[@]}"; do
    # A file of several stores that is renamed to another's is copied: who has it open goes on with the old bytes.
    without=()
    [[ $layout != flat3 ]] || without=(-x r)
    try "the exerciser finds no difference on $layout" limited 1800 "$thalweg" run -- "$work/exercise" "${without[@]}" -s 7 -n "$operations" "/mnt/thalweg/$layout/exercised"
done

called() { limited 600 "$thalweg" run -- "$work/calls" "$@"; }
for layout in container flat3 small_file direct; do many "$layout" called "/mnt/thalweg/$layout"; done
mkdir -p "$work/bare"
try "the same calls on a plain folder" "$work/calls" "$work/bare"

# N to 1: each process writes every fourth record, each reads what another wrote.
strided() { # strided LAYOUT
    local rank pid pids=() status=0
    for rank in 0 1 2 3; do
        "$thalweg" run -- "$work/calls" strided "/mnt/thalweg/$1/checkpoint" "$rank" 4 47001 20 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    return "$status"
}
for layout in container container3 direct; do
    try "four processes write one file ($layout)" strided "$layout"
    for rank in 0 1 2 3; do
        try "process $rank reads what another wrote ($layout)" "$thalweg" run -- "$work/calls" shifted "/mnt/thalweg/$layout/checkpoint" $rank 4 47001 20
    done
done
try "the checkpoint is whole" "$thalweg" layout check /mnt/thalweg/container/checkpoint

# Four processes append lines to one file at once, each line with an open of its own.
lines() { local k; for k in 1 2 3 4; do for ((i = 0; i < 25; i++)); do echo "process $k line $i"; done; done; }
appended() { # appended FILE: every line once, and those of a process in order
    local k
    "$thalweg" run -- cat "$1" >"$work/appended"
    diff <(sort "$work/appended") <(lines | sort)
    for k in 1 2 3 4; do diff <(grep "^process $k " "$work/appended") <(lines | grep "^process $k "); done
}
append() { # append LAYOUT
    local k pid pids=() status=0
    for k in 1 2 3 4; do
        # shellcheck disable=SC2016  # the inner shell expands it
        "$thalweg" run -- sh -c 'i=0; while [ $i -lt 25 ]; do echo "process $2 line $i" >>"$1"; i=$((i + 1)); done' _ "/mnt/thalweg/$1/lines" "$k" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    return "$status"
}
for layout in container container3 direct; do
    try "four processes append to one file ($layout)" append "$layout"
    try "every line is there ($layout)" appended "/mnt/thalweg/$layout/lines"
done
try "the file of lines is whole" "$thalweg" layout check /mnt/thalweg/container/lines

# Two processes have a file open. Of `container` the short file is inline, of `container3` in data logs.
for layout in "${layouts[@]}"; do
    promise=synced
    [[ $layout != container* ]] || promise=kept
    many "$layout" limited 600 python3 tests/system/open_handles.py "$promise" "$thalweg" "run:/mnt/thalweg/$layout/open" "run:/mnt/thalweg/$layout/open"
done

# Small files made one after the other: the store is asked about names a few times for all of them.
few_names() { # few_names COUNTS COMMAND...: that makes 300 files
    "${@:2}" && [[ $(cat "$1"/* | awk '$1 ~ /^(OpenWrite|OpenRead|Stat|List|Rename|Remove|MakeFolder|SyncFolder|Attributes|Failed)$/ { sum += $2 } END { print sum }') -le 60 ]]
}
try "small files are made without a question for each" few_names "$work/counts" "$thalweg" run -- "$work/calls" small /mnt/thalweg/counted/many 300

# A store far away is reached through the daemon, whose own table says here that it lies on this machine.
for layout in small_file container; do
    mkdir "$work/served.$layout"
    printf '[[mount]]\npath = "/mnt/served/%s"\nlayout = "%s"\nstore = "posix:%s"\ncounts = "%s"\n\n' $layout $layout "$work/served.$layout" "$work/counts.$layout" >>"$work/daemon.toml"
    printf '[[mount]]\npath = "/mnt/served/%s"\nlayout = "%s"\nstore = "hdfs://127.0.0.1:1/x"\n\n' $layout $layout >>"$work/served.toml"
    # The same files for a process that opens the store itself.
    printf '[[mount]]\npath = "/mnt/served/%s"\nlayout = "%s"\nstore = "posix:%s"\n\n' $layout $layout "$work/served.$layout" >>"$work/opened.toml"
done
mkdir -m 700 "$work/daemon"
export THALWEG_DAEMON=$work/daemon/socket
THALWEG_MOUNTS=$work/daemon.toml "$thalweg" mount --socket-only --foreground >>"$work/daemon.log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true' EXIT
for ((tries = 0; tries < 100; tries++)); do [[ ! -S $THALWEG_DAEMON ]] || break; sleep 0.1; done
served() { THALWEG_MOUNTS=$work/served.toml limited 600 "$thalweg" run -- "$work/calls" "$@"; }
try "small files are made without a question for each through the daemon" few_names "$work/counts.small_file" served small /mnt/served/small_file/many 300
for layout in small_file container; do
    many "$layout, through the daemon" env THALWEG_MOUNTS="$work/served.toml" timeout 600 python3 tests/system/open_handles.py synced "$thalweg" "run:/mnt/served/$layout/open" "run:/mnt/served/$layout/open"
done
beside_the_daemon() { # beside_the_daemon LAYOUT: one process goes through the daemon, the other opens the store itself
    limited 600 python3 tests/system/open_handles.py synced "$thalweg" "run=$work/served.toml:/mnt/served/$1/beside" "run=$work/opened.toml:/mnt/served/$1/beside"
}
for layout in container small_file; do many "$layout, through the daemon and beside it" beside_the_daemon "$layout"; done
numbers() { served numbers /mnt/served/container; }
many "through the daemon" numbers

refuses() { local status=0; "$thalweg" run -- "$work/static" /mnt/thalweg/direct >"$work/told" 2>&1 || status=$?; [[ $status == 3 ]] && grep -q "linked statically" "$work/told"; }
if [[ -x $work/static ]]; then try "a static program is refused, and why is said" refuses; fi
ends() { local status=0; "$thalweg" run -- bash -c 'exit 41' || status=$?; [[ $status == 41 ]]; }
try "the program's exit status is its own" ends
wrong() { # a table that is wrong stops everything
    local status=0
    printf '[[mount]]\npath = "/a"\nlayout = "nothing"\nstore = "posix:/tmp"\n' >"$work/wrong.toml"
    THALWEG_MOUNTS=$work/wrong.toml "$thalweg" run -- true >"$work/told" 2>&1 || status=$?
    [[ $status == 3 ]]
    grep -q 'wrong.toml:3' "$work/told"
    status=0
    env THALWEG_MOUNTS="$work/wrong.toml" LD_PRELOAD="$built/libthalweg_preload.so" true >"$work/told" 2>&1 || status=$?
    [[ $status == 125 ]] && grep -q 'wrong.toml:3' "$work/told"
}
try "a wrong mount table stops the program before it runs" wrong
asks_far() { # asks_far [VARIABLE=VALUE...]: a store on another machine, and nobody serves it
    printf '[[mount]]\npath = "/mnt/thalweg/far"\nlayout = "container"\nstore = "hdfs://127.0.0.1:1/x"\n' >"$work/far.toml"
    if env "$@" THALWEG_DAEMON="$work/none.sock" THALWEG_MOUNTS="$work/far.toml" LD_PRELOAD="$built/libthalweg_preload.so" cat /mnt/thalweg/far/x >"$work/told" 2>&1; then return 1; fi
}
far() {
    asks_far
    grep -q 'thalweg mount --socket-only' "$work/told"
    # The level counts, if there is one.
    asks_far THALWEG_LOG=warn THALWEG_ERRORS=quiet
    grep -q 'thalweg mount --socket-only' "$work/told"
}
suppressed() { # suppressed VARIABLE=VALUE: the program's own message remains
    asks_far "$1"
    grep -q '^cat: /mnt/thalweg/far/x: ' "$work/told"
    [[ $(wc -l <"$work/told") == 1 ]]
}
refusal_remains() {
    local status=0
    printf '[[mount]]\npath = "/a"\nlayout = "nothing"\nstore = "posix:/tmp"\n' >"$work/wrong.toml"
    env THALWEG_LOG=off THALWEG_MOUNTS="$work/wrong.toml" LD_PRELOAD="$built/libthalweg_preload.so" true >"$work/told" 2>&1 || status=$?
    [[ $status == 125 ]]
    grep -q 'wrong.toml:3' "$work/told"
}
# What is above a mount need not be there; `..` of its root is the folder above all the same.
# shellcheck disable=SC2016  # the inner shell expands them
above() { # above LAYOUT FOLDER
    "$thalweg" run -- ls -la "/mnt/thalweg/$1" >"$work/listed"
    grep -q ' \.\.$' "$work/listed"
    [[ $("$thalweg" run -- stat -c %F "/mnt/thalweg/$1/..") == directory ]]
    mkdir -p "$work/above"
    sed -n '\|"/mnt/thalweg/'"$1"'"|,/^$/p' "$THALWEG_MOUNTS" | sed 's|^path = .*|path = "'"$work"'/above/mount"|; 1i[[mount]]' >"$work/above.toml"
    : >"$work/above/beside"
    THALWEG_MOUNTS=$work/above.toml "$thalweg" run -- ls -la "$work/above/mount" >"$work/listed"
    THALWEG_MOUNTS=$work/above.toml "$thalweg" run -- cat "$work/above/mount/../beside" "$work/above/mount/run.dd/../../beside"
}
for layout in "${layouts[@]}"; do try "a listing with the folder above ($layout)" above "$layout"; done
# shellcheck disable=SC2016
relative() { # a table named by a relative path stays that table wherever a program goes, also for those that it starts
    cd "$work"
    THALWEG_MOUNTS=mounts.toml "$thalweg" run -- bash -c 'cd / && cp "$1" /mnt/thalweg/container/relative && bash -c "cat /mnt/thalweg/container/relative" && python3 -c "import os; os.chdir(\"/tmp\"); os.execlp(\"cat\", \"cat\", \"/mnt/thalweg/container/relative\")"' _ "$PLAIN/sub/two" >"$work/got.relative"
    [[ $(<"$work/got.relative") == twotwo ]]
    THALWEG_MOUNTS=mounts.toml LD_PRELOAD=$built/libthalweg_preload.so bash -c 'cd / && cat /mnt/thalweg/container/relative' | grep -q two
}
try "a mount table named by a relative path" relative

listed() { # every line of the list is a function of the library, and the other way round; the guide has the same
    diff <(nm -D --defined-only "$built/libthalweg_preload.so" | awk '$2 == "T" { print $3 }' | sort) <(awk -F' [|] ' 'NF == 4 && !/^#/ { print $1 }' crates/doors/calls.txt | sort)
    # shellcheck disable=SC2016  # $ is awk's
    diff <(sed -n '/^<!-- calls -->$/,/^<!-- end of calls -->$/p' docs/guide/doors.md | grep '`') <(awk -F' [|] ' '
        /^#|^$/ { next }
        /^\[/ { gsub(/[][]/, ""); topic = $0; order[++n] = topic; next }
        { names[topic] = names[topic] (names[topic] ? " " : "") "`" $1 "`" }
        END { for (i = 1; i <= n; i++) print "| " order[i] " | " names[order[i]] " |" }' crates/doors/calls.txt)
}
try "the list of calls, the library and the guide agree" listed
# Logs of small files end with the process: a bell that cannot be rung then is no success.
# shellcheck disable=SC2016  # the inner shell expands them
unheard() { # unheard STATUS SHELL END: what a shell ends with whose bell was taken away before END
    local bell=$work/small_file.0/unheard/.thalweg-small/bell status=0
    "$thalweg" run -- rm -rf /mnt/thalweg/small_file/unheard
    "$thalweg" run -- mkdir /mnt/thalweg/small_file/unheard
    "$thalweg" run -- "$2" -c 'printf x >/mnt/thalweg/small_file/unheard/a && (rm -f "$0" && mkdir "$0") && '"$3" "$bell" 2>"$work/told" || status=$?
    rm -rf "$bell"
    [[ $status == "$1" ]]
    grep -q '^thalweg: ending logs: ' "$work/told"
    [[ $("$thalweg" run -- cat /mnt/thalweg/small_file/unheard/a) == x ]]
}
try "a process that cannot end its logs exits with 1" unheard 1 bash 'exit 0'
try "a process that ends without its handlers exits with 1, too" unheard 1 dash 'exit 0'
try "a status that is no success stays" unheard 7 bash 'exit 7'
try "a process that cannot end its logs becomes no other program" unheard 126 bash 'exec true'
# shellcheck disable=SC2016  # the shell that is tried expands it
try "a process that cannot end its logs becomes no other program (dash)" unheard 126 dash 'PATH=/nowhere:$PATH exec true'
try "a store on another machine without a daemon is an error that names the command" far
try "THALWEG_LOG=off suppresses what explains an error number" suppressed THALWEG_LOG=off
try "THALWEG_ERRORS=quiet does, without THALWEG_LOG" suppressed THALWEG_ERRORS=quiet
try "THALWEG_LOG=off does not hide why a program is refused" refusal_remains
loss_remains() {
    local -x THALWEG_LOG=off
    unheard 1 bash 'exit 0'
}
try "THALWEG_LOG=off does not hide the loss of bytes" loss_remains
exit $failed
