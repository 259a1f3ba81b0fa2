#!/bin/sh
exec test/t-weights
