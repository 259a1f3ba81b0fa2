#!/bin/sh
exec test/t-cfguse
