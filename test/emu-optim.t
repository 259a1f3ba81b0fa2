#!/bin/sh
exec test/t-emu-optim
