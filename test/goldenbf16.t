#!/bin/sh
. test/golden.sh
exec test/golden -p bf16 $golden
