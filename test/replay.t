#!/bin/sh
exec test/t-replay
