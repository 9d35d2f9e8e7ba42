#!/bin/sh
# split-symbols.sh PROGRAM: puts names and lines of a program into PROGRAM.debug beside it, and leaves it a fifth as large. A debugger, and perf,
# find them where they are together, or by the build id below /usr/lib/debug.
set -eu
program=$1
objcopy --only-keep-debug "$program" "$program.debug"
chmod 0644 "$program.debug"
# Names of functions stay, for backtraces.
objcopy --strip-debug "$program"
objcopy --remove-section .gnu_debuglink "$program"
objcopy --add-gnu-debuglink="$program.debug" "$program"
