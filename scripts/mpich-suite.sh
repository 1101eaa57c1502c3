#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# MPICH's own test-suite over the libfabric provider, compared with the same MPICH over its own
# shared memory. apt-get fetches the suite from Debian's source package; the library is PyPI's wheel.
set -u
help() {
    cat <<'END'
Usage: scripts/mpich-suite.sh PROVIDER OUT BELLWIRE [--jobs N] [--only REGEX] [--minutes N] [--limit FACTOR] [--fresh] [--list]
Runs the C programs of MPICH's test-suite over Bellwire's libfabric provider.

  PROVIDER        libbellwire_fi.so
  OUT             where to install the MPI (as tests/mpi/check.sh does), and to build the suite
  BELLWIRE        the command
  --jobs N        programs at a time; each has 1 to 32 ranks (default: half the processors)
  --only REGEX    only cases that match, as --list shows them
  --minutes N     start no case after so many minutes; the cases that ran longest ago come first
  --limit FACTOR  time limits times this (default 2; the suite's own are mostly 180 s)
  --fresh         start anew, also if the last run of the same provider and cases was cut
  --list          print the cases, run nothing

A case that fails runs at once over MPICH's own shared memory too. One that passes there fails the
run, unless tests/mpi/mpich-suite.differences says why. OUT/mpich-suite/bellwire has a line for each
case, OUT/mpich-suite/logs its output. A run that was cut, or that --minutes ended, goes on where it
stopped. The source comes from MPICH_SOURCE, a folder, if that is set.
END
}
case ${1:-} in -h | --help) help; exit 0 ;; esac
[ $# -ge 3 ] || { help >&2; exit 2; }

# One case, started by xargs: DIR PROGRAM RANKS KEY=VALUE .. A case that fails runs over shared
# memory at once, so that both have the same machine.
one() {
    [ "$(date +%s)" -lt "$DEADLINE" ] || return 0
    local n
    try bellwire "$@"
    local line=$LINE
    case $line in
        passed* | skipped*) ;;
        *) try posix "$@" && echo "$LINE" >>"$SUITE/posix" ;;
    esac
    # Last, so that a run that is cut before it does the whole case again.
    echo "$line" >>"$SUITE/bellwire"
    n=$(wc -l <"$SUITE/bellwire")
    [ $((n % 25)) != 0 ] || echo "$n of $TOTAL cases, $(grep -c '^passed' "$SUITE/bellwire") passed," \
        "$((($(date +%s) - BEGAN) / 60)) min, $(cut -d' ' -f1 /proc/loadavg) processes want the processors"
}
try() { # bellwire or posix, the case

    local way=$1 dir=$2 program=$3 ranks=$4 word limit=180 result= memory=0 status began key
    local arguments=() settings=() extra=()
    key="${*:2}"
    shift 4
    for word in "$@"; do
        case $word in
            arg=*) arguments+=("${word#*=}") ;;
            # Its name in MPICH 5.
            env=MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE=*) settings+=("MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD=${word##*=}") ;;
            env=*) settings+=("${word#*=}") ;;
            mpiexecarg=*) extra+=("${word#*=}") ;;
            timeLimit=*) limit=${word#*=} ;;
            resultTest=*) result=${word#*=} ;;
            mem=*) memory=${word#*=} ;;
        esac
    done
    local log
    log=$SUITE/logs/$way.$(printf '%s' "$key" | name_of_log)
    if [ "$(awk -v need="$memory" '/^MemAvailable/ {print ($2 / 1048576 > need + 2)}' /proc/meminfo)" != 1 ]; then
        LINE=$(printf 'skipped\t0\t%s' "$key")
        return
    fi
    # The carrier of messages within the host: bellwire or posix.
    if [ "$way" = bellwire ]; then
        eval "$("$BELLWIRE" env --mpi mpich)"
    else
        unset FI_PROVIDER FI_PROVIDER_PATH MPIR_CVAR_CH4_NETMOD MPIR_CVAR_NOLOCAL
    fi
    began=$EPOCHREALTIME
    (
        cd "$SUITE/build/$dir" || exit 1
        # Cases that need much memory run one at a time.
        if [ "$memory" != 0 ]; then exec 9>"$SUITE/lock" && flock 9; fi
        env ${settings[@]+"${settings[@]}"} MPIEXEC_TIMEOUT=$((limit * LIMIT)) timeout --foreground -k 10 $((limit * LIMIT + 20)) \
            "$MPIEXEC" -n "$ranks" ${extra[@]+"${extra[@]}"} "./$program" ${arguments[@]+"${arguments[@]}"}
    ) >"$log" 2>&1 </dev/null
    status=$?
    LINE=$(printf '%s\t%.1f\t%s' "$(judge "$log" "$status" "$result")" "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')" "$key")
}
name_of_log() { tr -c 'a-zA-Z0-9=.\n-' '_' | cut -c 1-200; }
# As the suite's own runner judges.
judge() { # log, status, which test of the result
    local clean=0 said=0
    grep -aqE '^\s*No [Ee]rrors\s*$' "$1" && said=1
    grep -avE '^\s*No [Ee]rrors\s*$|^\s*Test Passed\s*$' "$1" | grep -q . || clean=1
    if [ "$2" = 124 ] || [ "$2" = 137 ] || { [ -z "$3" ] && grep -aq 'APPLICATION TIMED OUT' "$1"; }; then
        echo time-out
        return
    fi
    case $3 in
        TestStatusNoErrors) [ "$2" != 0 ] && [ $said = 1 ] && [ $clean = 1 ] ;;
        TestStatus | TestErrFatal) [ "$2" != 0 ] ;;
        *) [ "$2" = 0 ] && [ $said = 1 ] && [ $clean = 1 ] ;;
    esac && echo passed || echo failed
}
if [ "$1" = --one ]; then
    shift
    # A case that is cut has no result.
    trap 'exit 130' INT TERM
    one "$@"
    exit 0
fi

self=$(realpath "$0")
source "$(dirname "$0")/../tests/mpi/common.sh" "$(realpath "$1")" "$(realpath -m "$2")" "$(realpath "$3")"
shift 3
jobs=$((($(nproc) + 1) / 2)) only=. minutes=100000 LIMIT=2 fresh=0 list=0
while [ $# != 0 ]; do
    case $1 in
        --jobs) jobs=$2; shift ;;
        --only) only=$2; shift ;;
        --minutes) minutes=$2; shift ;;
        --limit) LIMIT=$2; shift ;;
        --fresh) fresh=1 ;;
        --list) list=1 ;;
        *) help >&2; exit 2 ;;
    esac
    shift
done
SUITE=$out/mpich-suite MPIEXEC=$out/mpich/bin/mpiexec BELLWIRE=$bellwire
export SUITE MPIEXEC LIMIT BELLWIRE
mkdir -p "$SUITE/logs" "$SUITE/apt/lists/partial" "$SUITE/apt/cache/archives/partial"
for word in xz make perl; do
    command -v "$word" >/dev/null || { echo "SKIPPED mpich-suite: no $word"; exit 0; }
done
has mpich "$(printf '%s\n' $packages | sed -n 's/^mpich://p')" || exit 0

# ---- the suite's source and programs
# The version of a stable release: the archive drops versions of others when they move on.
version=4.0.2-3
fetched() {
    local apt=(-o "Dir::Etc::sourcelist=$SUITE/apt/sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$SUITE/apt/lists"
        -o "Dir::Cache=$SUITE/apt/cache" -o APT::Get::List-Cleanup=0 -o "APT::Sandbox::User=$(id -un)")
    command -v apt-get >/dev/null || return 1
    echo 'deb-src http://deb.debian.org/debian bookworm main' >"$SUITE/apt/sources"
    (cd "$SUITE" && apt-get "${apt[@]}" -qq update && apt-get "${apt[@]}" -qq source --download-only "mpich=$version" && tar xf mpich_4.0.2.orig.tar.xz) >"$SUITE/fetch.log" 2>&1
}
source=${MPICH_SOURCE:-$SUITE/mpich-4.0.2}
if [ ! -x "$source/test/mpi/configure" ] && ! fetched; then
    echo "SKIPPED mpich-suite: its source cannot be fetched ($(tail -n 1 "$SUITE/fetch.log" 2>/dev/null))"
    exit 0
fi
build() {
    mkdir -p "$SUITE/build" && cd "$SUITE/build" || return 1
    echo "building the programs of the suite (some minutes): $SUITE/build.log"
    "$source/test/mpi/configure" --with-mpi="$out/mpich" --disable-fortran --disable-cxx --disable-romio --enable-threads=multiple CFLAGS='-O1 -w' >../build.log 2>&1 || return 1
    # A program whose calls this MPI lacks does not build; its cases fail, over both.
    make -k -j "$(nproc)" >>../build.log 2>&1
    touch ../built
}
[ -e "$SUITE/built" ] || (build) || { echo "FAILED build"; tail -n 20 "$SUITE/build.log"; exit 1; }

# ---- its cases
cases() { # folder, below that of the suite
    local file=$SUITE/build/$1/testlist line
    [ -f "$file" ] || file=$source/test/mpi/$1/testlist
    [ -f "$file" ] || return 0
    while read -r line; do
        line=${line%%#*}
        read -ra words <<<"$line"
        [ ${#words[@]} != 0 ] || continue
        case " $line " in *' xfail='*) continue ;; esac
        case ${words[0]} in !*) continue ;; esac
        if [ -d "$source/test/mpi/$1/${words[0]}" ]; then
            cases "$1/${words[0]}"
        else
            echo "$1 ${words[0]} ${words[1]:-2} ${words[*]:2}"
        fi
    done <"$file"
}
for folder in attr coll comm datatype errhan group info init mpi_t pt2pt part rma spawn topo errors threads impls; do
    cases "$folder"
done | sed 's/ *$//' | sort -u >"$SUITE/all"
# MPICH 5 has protocols for long messages that this suite does not know.
for protocol in pipeline read write; do
    for case in 'probe_unexp 4' 'mprobe 2'; do
        echo "pt2pt $case env=MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD=16384 env=MPIR_CVAR_CH4_OFI_RNDV_PROTOCOL=$protocol"
    done
done >>"$SUITE/all"
grep -E -- "$only" "$SUITE/all" >"$SUITE/cases"
if [ $list = 1 ]; then
    cat "$SUITE/cases"
    exit 0
fi

# ---- the run
# The same provider and cases as those of a run that has not ended: that run goes on.
this="$(sha256sum <"$provider") $only $LIMIT"
if [ $fresh = 1 ] || [ "$this" != "$(cat "$SUITE/going" 2>/dev/null)" ]; then
    : >"$SUITE/bellwire"
    : >"$SUITE/posix"
    echo "$this" >"$SUITE/going"
else
    echo "going on with the run that stopped after $(wc -l <"$SUITE/bellwire") cases"
fi
# The cases without a result: first those that never ran, then those that ran longest ago.
ls -tr "$SUITE/logs" | sed -n 's/^bellwire\.//p' >"$SUITE/ran"
paste <(name_of_log <"$SUITE/cases") "$SUITE/cases" | awk -F '\t' '
    FILENAME == ARGV[1] { done[$3] = 1; next }
    FILENAME == ARGV[2] { age[$1] = FNR; next }
    !($2 in done) { print ($1 in age ? age[$1] : 0) "\t" $2 }' "$SUITE/bellwire" "$SUITE/ran" - | sort -n -s -k 1,1 | cut -f 2 >"$SUITE/left"
TOTAL=$(wc -l <"$SUITE/cases") BEGAN=$(date +%s)
DEADLINE=$((BEGAN + minutes * 60))
export TOTAL BEGAN DEADLINE
xargs -r -a "$SUITE/left" -d '\n' -P "$jobs" -I CASE bash -c 'read -ra words <<<"$2"; exec bash "$1" --one "${words[@]}"' - "$self" CASE
left=$((TOTAL - $(wc -l <"$SUITE/bellwire")))
[ $left != 0 ] || rm -f "$SUITE/going"

# ---- what differs
differences=$here/mpich-suite.differences
awk -F '\t' -v OFS='\t' -v list="$differences" -v left=$left '
    BEGIN { while ((getline line < list) > 0) if (line !~ /^#/ && line != "") { at = index(line, "\t"); why[substr(line, 1, at - 1)] = substr(line, at + 1) } }
    FILENAME ~ /posix$/ { there[$3] = $1; next }
    {
        split($3, words, " ")
        folder = words[1]
        kind = $1
        if ($1 != "passed" && $1 != "skipped") {
            if (there[$3] != "passed") kind = "fails on both"
            else if ($3 in why) kind = "known"
            else kind = "only here"
        }
        n[folder, kind]++; all[folder]++; sum[kind]++
        if (kind == "known") print "known: " $3 " (" why[$3] ")"
        if (kind == "only here") { print "FAILED " $3 " (" $1 ", " $2 " s; over shared memory it passes)"; bad++ }
    }
    END {
        printf "%-16s %6s %7s %14s %6s %10s %8s\n", "folder", "cases", "passed", "fails on both", "known", "only here", "skipped"
        fflush()
        for (folder in all) printf "%-16s %6d %7d %14d %6d %10d %8d\n", folder, all[folder], n[folder, "passed"], n[folder, "fails on both"], n[folder, "known"], n[folder, "only here"], n[folder, "skipped"] | "sort"
        close("sort")
        printf "%d passed, %d failed (%d fail over shared memory too, %d are known, %d skipped, %d not reached)\n", sum["passed"], bad, sum["fails on both"], sum["known"], sum["skipped"], left
        exit bad != 0
    }' "$SUITE/posix" "$SUITE/bellwire"
