#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# How many seconds a test gives a program that would take a fraction of them alone: more on a
# machine where more programs want its processors, up to six times as many. It is a limit for what
# hangs; a test that passes does not wait for it.
#   patience=$(tests/patience.sh 120)
processors=$(nproc)
read -r load _ </proc/loadavg
times=$(((${load%%.*} + processors) / processors))
echo $(($1 * (times > 6 ? 6 : times < 1 ? 1 : times)))
