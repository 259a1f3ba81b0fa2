#!/bin/sh
exec test/t-bench
