#!/bin/sh
# No weak symbol of evenkeel is defined in two of the objects, or the linker would keep a copy compiled with the wrong
# flags.  usage: check_symbols.sh <object>...
symbols=$(nm --defined-only "$@" | awk '$2 ~ /^[WVu]$/ && $3 ~ /8evenkeel/ { print $3 }' | sort)
if [ -z "$symbols" ]; then
  echo "no weak symbol of evenkeel in any object: nothing was checked"
  exit 1
fi
shared=$(echo "$symbols" | uniq -d)
if [ -n "$shared" ]; then
  echo "in more than one object, although they are compiled for different instruction sets:"
  echo "$shared" | c++filt
  exit 1
fi
