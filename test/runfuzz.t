#!/bin/sh
exec test/t-runfuzz
