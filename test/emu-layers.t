#!/bin/sh
exec test/t-emu-layers
