#!/bin/sh
. test/golden.sh
exec test/golden $golden
