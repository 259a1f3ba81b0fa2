#!/bin/sh
exec test/t-shard
