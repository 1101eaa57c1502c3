#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a command whose instructions are counted before other programs, if this user may (a real-time
# priority). What a call does depends on whether the NIC's helper thread got a processor in time.
#   tests/steady.sh COMMAND [ARGUMENTS]
! chrt -f 1 true 2>/dev/null || exec chrt -f 1 "$@"
exec "$@"
