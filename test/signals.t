#!/bin/sh
exec test/t-signals
