#!/bin/sh
exec test/t-evalfuzz
