#!/bin/sh
exec test/t-eval
