#!/bin/sh
exec test/t-threads
