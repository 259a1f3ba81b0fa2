#!/bin/sh
exec test/t-sync
