#!/bin/sh
exec test/t-cfg
