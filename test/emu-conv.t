#!/bin/sh
exec test/t-emu-conv
