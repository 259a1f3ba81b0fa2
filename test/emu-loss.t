#!/bin/sh
exec test/t-emu-loss
