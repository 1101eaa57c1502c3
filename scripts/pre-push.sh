#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# git runs it before a push: nothing that `make check` refuses is pushed. `git push --no-verify`
# leaves it out.
#   scripts/pre-push.sh install     makes it the hook of this clone (make hooks)
set -u
if [ "${1:-}" = install ]; then
    cd "$(dirname "$0")/.." || exit 1
    hook=$(git rev-parse --git-path hooks/pre-push) || exit 1
    mkdir -p "$(dirname "$hook")" || exit 1
    if [ -e "$hook" ] && ! grep -q 'scripts/pre-push.sh' "$hook"; then
        echo "hooks: there is another hook, $hook: it is left alone; let it call scripts/pre-push.sh" >&2
        exit 1
    fi
    # A branch without this script is pushed unchecked.
    cat >"$hook" <<'HOOK'
#!/bin/sh
script=$(git rev-parse --show-toplevel)/scripts/pre-push.sh
[ ! -x "$script" ] || exec "$script" "$@"
HOOK
    chmod +x "$hook" && echo "hooks: make check runs before each push"
    exit
fi

head=$(git rev-parse HEAD) pushed=no other=no
# Of each reference: its name and its commit here, then there. Zeros: it is deleted.
while read -r _ commit _; do
    case $commit in
        *[!0]*) pushed=yes; [ "$(git rev-parse "$commit^{commit}")" = "$head" ] || other=yes ;;
    esac
done
[ $pushed = yes ] || exit 0
[ $other = no ] || echo "pre-push: only the files that are checked out are checked, not the other commits" >&2
[ -z "$(git status --porcelain)" ] || echo "pre-push: there are changes that are not committed; the check sees them, too" >&2
# git names its own folder to hooks, which commands of the check must not inherit.
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)
make -s check || { echo "pre-push: not pushed (git push --no-verify pushes all the same)" >&2; exit 1; }
