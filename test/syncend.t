#!/bin/sh
exec test/t-syncend
