#!/bin/sh
exec test/t-emu-graph
