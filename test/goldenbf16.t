#!/bin/sh
exec test/golden -p bf16 ../shared/golden
