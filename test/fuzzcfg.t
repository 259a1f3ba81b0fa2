#!/bin/sh
exec test/t-fuzzcfg
